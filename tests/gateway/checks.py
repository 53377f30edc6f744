"""Counts checks and prints those that fail: what the scripts of this folder share."""
passed = failed = 0


def check(name, ok, detail=""):
    global passed, failed
    if ok:
        passed += 1
    else:
        failed += 1
        print("FAIL", name, str(detail)[:300], flush=True)


def exit_code(least=1):
    """Tells the counts; 1 unless `least` checks passed and none failed."""
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or passed < least else 0
