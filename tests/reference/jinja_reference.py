#!/usr/bin/env python3
"""Writes tests/data/golden/jinja_cases.jsonl: templates and what the reference (PyPI jinja2, set up as transformers does) makes of them.

Run: pip install jinja2; python3 tests/reference/jinja_reference.py > tests/data/golden/jinja_cases.jsonl
The first line is {"context"}, each other one {"template", "expected"} or {"template", "error": true}; "context" in it is added to the
first one's. strftime_now tells the time NOW in UTC. The chat templates at the end are written for this file, in the styles of public ones.
"""
import datetime
import json
import sys

from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

CHAT = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": " Hi <|im_end|> "}, {"role": "assistant", "content": "Hello"}]
CONTEXT = {
    "messages": CHAT, "add_generation_prompt": True, "bos_token": "<s>", "eos_token": "</s>", "n": 7, "x": 2.5, "t": True, "f": False,
    "nothing": None, "s": "Hello, World", "u": "naïve 😀 été", "xs": [3, 1, 2], "d": {"a": 1, "b": "two", "c": [1, None, True]}, "empty": "",
}

# One template a line of thought: whitespace, operators, values, loops, scopes, filters, tests, methods, macros, errors.
TEMPLATES = [
    "plain text", "", "a\n", "a\n\n", "{{ s }}", "{{s}}{{ n }}", "x {# comment #} y", "{#- a -#} b", "a {#- c -#} b",
    "{% if t %}\nyes\n{% endif %}\nend", "a\n  {% if t %}\n  b\n  {% endif %}\nc", "a\n  {%+ if t %}b{% endif %}", "a {%- if t -%} b {%- endif -%} c",
    "a\n {{- s -}} \n b", "{% if t %}\n\n\nthree{% endif %}", "x{% if f %}a{% elif n > 5 %}b{% else %}c{% endif %}y", "{% if t +%}\nkeep{% endif %}",
    "{{ '{{' }} {{ '%}' }}", "{{ \"double\" ~ 'single' }}", "{{ 'a\\nb\\t\\'q\\' \\\\ \\x41 \\u00e9' }}", "{{ 'a' 'b' }}",
    "{{ 1 + 2 * 3 - 4 }}", "{{ (1 + 2) * 3 }}", "{{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 4 / 2 }}", "{{ 2 ** 10 }} {{ 2 ** -1 }}",
    "{{ -n }} {{ +n }} {{ - x }} {{ -2 ** 2 }}", "{{ 1.0 }} {{ 2.50 }}", "{{ 1e }}", "{{ 10.5 // 3 }} {{ 10.5 % 3 }}", "{{ 1 ~ 2 ~ none ~ true }}",
    "{{ 'ab' * 3 }}", "{{ [1] + [2, 3] }}", "{{ s + 1 }}", "{{ 1 == 1.0 }} {{ 'a' == 'a' }} {{ 1 != 2 }} {{ [1, 2] == [1, 2] }} {{ 1 == '1' }}",
    "{{ 1 < 2 }} {{ 'a' < 'b' }} {{ 2 >= 2 }} {{ 'b' <= 'a' }}", "{{ 1 < 'a' }}", "{{ 'World' in s }} {{ 'x' not in s }} {{ 3 in xs }} {{ 'a' in d }} {{ 'z' in d }}",
    "{{ not t }} {{ not f and t }} {{ f or n }} {{ empty or 'default' }} {{ t and n }}", "{{ t and f or t }} {{ not (t and f) }}",
    "{{ 'yes' if t else 'no' }} {{ 'yes' if f else 'no' }} [{{ 'only' if f }}]", "{{ 'a' if f else 'b' if f else 'c' }}",
    "{{ none }} {{ true }} {{ False }} {{ None }}", "{{ xs }} {{ d }} {{ ['a', \"it's\"] }}", "{{ (1, 2)[1] }} {{ [1, 2,][0] }}", "{{ {'k': 1, 'l': [2]} }}",
    "{{ missing }}|{{ missing is defined }}|{{ d.missing }}|{{ d['missing'] }}", "{{ missing.field }}", "{{ missing['x'] }}", "{{ missing + 'a' }}", "{{ missing() }}",
    "{{ d.a }} {{ d['b'] }} {{ d.c[2] }} {{ d.c[-1] }} {{ xs[0] }} {{ xs[5] }}", "{{ s[0] }} {{ s[-1] }} {{ u[2] }} {{ u[6] }}",
    "{{ s[1:4] }} {{ s[:5] }} {{ s[7:] }} {{ s[-5:] }} {{ s[::-1] }} {{ s[::2] }} {{ xs[1:] }} {{ u[5:8] }} {{ xs[::-1] }} {{ s[10:2] }} {{ s[5:1:-1] }}",
    "{{ messages[1:] | length }} {{ messages[0].role }} {{ messages[-1]['content'] }}", "{{ messages[1:][0]['role'] }}",
    "{% for m in messages %}{{ m.role }}:{{ m['content'] }};{% endfor %}", "{% for x in xs %}{{ loop.index }}/{{ loop.length }}={{ x }}{% if not loop.last %}, {% endif %}{% endfor %}",
    "{% for x in xs %}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }} {% endfor %}",
    "{% for x in xs %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }} {% endfor %}", "{% for x in xs %}{{ loop.cycle('a', 'b') }}{% endfor %}",
    "{% for x in xs if x > 1 %}{{ loop.index }}:{{ x }} {% endfor %}", "{% for x in [] %}a{% else %}none{% endfor %}", "{% for x in missing %}a{% else %}none{% endfor %}",
    "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}", "{% for k in d %}{{ k }}{% endfor %}", "{% for a, b in [(1, 2), (3, 4)] %}{{ a + b }} {% endfor %}",
    "{% for c in 'añb' %}[{{ c }}]{% endfor %}", "{% for x in n %}{% endfor %}", "{% for x in range(3) %}{{ x }}{% endfor %} {{ range(2, 8, 3) | list }} {{ range(3, 0, -1) | list }}",
    "{% for x in xs %}{% for y in xs %}{{ loop.index }}{% endfor %}-{{ loop.index }} {% endfor %}", "{% for x in range(9) %}{% if x == 2 %}{% continue %}{% endif %}{% if x == 4 %}{% break %}{% endif %}{{ x }}{% endfor %}",
    "{% set a = 1 %}{{ a }}{% set a = a + 1 %}{{ a }}", "{% set a, b = 1, 2 %}{{ b }}{{ a }}", "{% set a = 1 %}{% for x in xs %}{% set a = 9 %}{% endfor %}{{ a }}", "{% set a = 1 %}{% if t %}{% set a = 2 %}{% endif %}{{ a }}",
    "{% set ns = namespace(found=false, n=0) %}{% for x in xs %}{% set ns.n = ns.n + x %}{% set ns.found = true %}{% endfor %}{{ ns.n }} {{ ns.found }}", "{% set b %}in {{ n }}\n{% endset %}[{{ b }}]",
    "{% set m = messages %}{% if messages[0]['role'] == 'system' %}{% set m = messages[1:] %}{% endif %}{{ m | length }}", "{% set n.x = 1 %}",
    "{% macro hi(name, mark='!') %}Hi {{ name }}{{ mark }}{% endmacro %}{{ hi('A') }} {{ hi('B', mark='?') }} {{ hi(name='C') }}", "{% macro r(i) %}{{ i }}{% if i > 0 %}{{ r(i - 1) }}{% endif %}{% endmacro %}{{ r(3) }}",
    "{% set g = 5 %}{% macro m() %}{{ g }}{% endmacro %}{% for g2 in xs %}{{ m() }}{% endfor %}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}",
    "{{ '  a b ' | trim }}|{{ '  a b ' | trim | length }}|{{ 'xxaxx' | trim('x') }}", "{{ s | length }} {{ u | length }} {{ xs | length }} {{ d | count }} {{ missing | length }}", "{{ missing | default('d') }} {{ empty | default('d') }} {{ empty | default('d', true) }} {{ none | default('d') }} {{ missing | d }}",
    "{{ xs | join(', ') }} {{ xs | join }} {{ messages | join('-', attribute='role') }}", "{{ s | upper }} {{ s | lower }} {{ 'heLLO wOrld' | capitalize }} {{ 'heLLO wOrld' | title }}", "{{ xs | first }} {{ xs | last }} {{ [] | first }} {{ s | first }}",
    "{{ s | replace('l', 'L') }} {{ s.replace('o', '') }} {{ s | reverse }} {{ xs | reverse | list }}", "{{ '42' | int + 1 }} {{ 'x' | int }} {{ 'x' | int(5) }} {{ 2.9 | int }} {{ '2.5' | float }} {{ 3 | float }}", "{{ -3 | abs }} {{ n | string ~ 'x' }} {{ s | safe }}",
    "{{ d | tojson }} {{ 'a\"b\\n<é>' | tojson }} {{ [1, 2.5, none, true, {}] | tojson }} {{ [] | tojson }}", "{{ d | tojson(indent=2) }}", "{{ messages | map(attribute='role') | join(',') }} {{ xs | map('string') | join('+') }} {{ messages | map(attribute='name', default='?') | list }}",
    "{{ messages | selectattr('role', 'equalto', 'user') | list | length }} {{ messages | rejectattr('role', 'equalto', 'user') | map(attribute='role') | list }} {{ xs | select('odd') | list }} {{ xs | reject('odd') | list }}", "{{ d | items | map('first') | list }} {{ 'a\nb\n\nc' | indent(2) }} {{ 'a\nb' | indent(2, true) }}",
    "{{ s is defined }} {{ missing is undefined }} {{ nothing is none }} {{ s is string }} {{ n is number }} {{ x is float }} {{ n is integer }} {{ t is boolean }} {{ d is mapping }} {{ xs is sequence }} {{ xs is iterable }} {{ n is iterable }} {{ t is true }} {{ f is false }}",
    "{{ s is not none }} {{ not s is none }} {{ nothing is not defined }}", "{{ n is odd }} {{ n is even }} {{ n is divisibleby 7 }} {{ n is divisibleby(2) }} {{ 3 is in xs }} {{ n is equalto 7 }} {{ n is eq(8) }} {{ 1 is ne 2 }} {{ n is gt 3 }}", "{{ s is string and n is number }} {{ missing is defined or t }} {{ 'a' if s is string else 'b' }}",
    "{{ '  x '.strip() }}|{{ '  x '.lstrip() }}|{{ '  x '.rstrip() }}|{{ 'axa'.strip('a') }}", "{{ s.upper() }} {{ s.lower() }} {{ s.title() }} {{ s.capitalize() }}", "{{ s.startswith('Hell') }} {{ s.endswith('x') }} {{ s.startswith(('a', 'H')) }} {{ u.find('😀') }} {{ s.find('z') }}",
    "{{ 'a,b,,c'.split(',') }} {{ ' a  b '.split() }} {{ 'a b c'.split(' ', 1) }} {{ ''.split(',') }} {{ 'a,'.split(',') }} {{ 'a</t>b'.split('</t>')[-1] }} {{ ' a b c '.split(none, 1) }}", "{{ d.get('a') }} {{ d.get('z') }} {{ d.get('z', 0) }} {{ d.keys() | list }} {{ d.values() | list }}",
    "{{ raise_exception('no ' + s) }}", "{{ 1 // 0 }}", "{{ s | nofilter }}", "{{ s is notest }}", "{{ 2 ** 3 ** 2 }}", "{{ none[0:1] }}", "{{ none | length }}", "{{ none + 1 }}", "{{ d['a']('x') }}",
    "{{ }}", "{{ s", "{% if t %}", "{% endif %}", "{% for x %}{% endfor %}", "{% bogus %}", "{{ 'open }}", "{{ s. }}", "{{ (1 }}", "{{ [1 }}", "{{ {1 }}", "{% set = 1 %}", "{{ 1 2 }}", "{# open", "{% else %}", "{{ s | }}", "{% macro %}{% endmacro %}",
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
    "{{ bos_token }}{% for message in messages[1:] %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate') }}{% endif %}{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'].strip() + ' [/INST]' }}{% else %}{{ message['content'] + eos_token }}{% endif %}{% endfor %}",
    "{%- if tools %}x{%- endif %}{%- set ns = namespace(last=0) %}\n{%- for m in messages %}\n    {%- if m.role == 'user' %}\n        {%- set ns.last = loop.index0 %}\n    {%- endif %}\n{%- endfor %}\n{{- ns.last }}\n",
    "{% generation %}{{ s }}{% endgeneration %}",
]

NOW = 1700000000  # 14 November 2023, 22:13:20 UTC

# What public chat templates use beyond the basics.
MORE = [
    "{% raw %}{{ s }} {% if %}{% endraw %}!", "a {%- raw -%}  x  {%- endraw -%}  b", "a\n  {% raw %}\n b\n  {% endraw %}\nc", "{% raw %}open", "{%+ raw %} y{% endraw +%}\nz", "{% raw %}{% endraws %}{% endraw %}",
    "{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 1 < 2 == 2 }} {{ 3 > 2 >= 2 != 5 }} {{ 1 in [1] in [[1]] }} {{ 'a' not in s in [s] }}",
    "{{ (1, 2) }} {{ (1,) }} {{ () }} {{ 1, 2 }} {{ [1] == (1,) }} {{ (1, 2) + (3,) }} {{ (1, 2, 3)[1:] }} {{ d.items() | list }} {{ [(1, 'a')] }}",
    "{{ [0] * 3 }} {{ 2 * 'ab' }} {{ (1, 2) * 2 }} {{ 'ab' * -1 }} {{ [1, 2] < [1, 3] }} {{ (1, 'b') > (1, 'a') }} {{ [1] < [1, 0] }}", "{{ [1] + (2,) }}", "{{ [1] < 2 }}",
    "{{ 1e5 }} {{ 1E-3 }} {{ 1.5e+2 }} {{ 1_000_000 }} {{ 1_0.2_5 }}", "{{ 100000.0 }} {{ 1e15 }} {{ 1e16 }} {{ 123456789012345680.0 }} {{ 0.0001 }} {{ 0.00001 }} {{ 1.0 / 3 }} {{ 1e22 }} {{ -0.0 }} {{ 2.5e-7 }}",
    "{{ '\\101\\0' | length }} {{ '\\U0001F600' }} {{ '\\a' | length }} {{ '\\d' }} {{ 'a\\\nb' }}", "{{ ['a\\nb', 'c\\x01d\\r', 'é'] }}",
    "{% for x in xs %}{{ loop.depth }}{{ loop.depth0 }}{{ loop.changed(x > 1) }} {% endfor %}", "{% for a in [1, 1, 2] %}{{ loop.changed(a) }}{% endfor %}", "{% for (a, b) in [(1, 2)] %}{{ a }}{{ b }}{% endfor %}",
    "{% for x in xs %}{% if not loop.first %}{{ v is defined }}{% endif %}{% set v = x %}{% endfor %}", "{% for x in xs %}{{ x }}{% if loop.nextitem is defined %},{% endif %}{% else %}none{% endfor %}",
    "{% for x in range(0) %}{% else %}{{ x is defined }}{% endfor %}",
    "{% macro m(a, b='x', c=none) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(1) }} {{ m(1, c=3) }} {{ m(c=1, b=2, a=3) }} {{ m() }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(b=1) }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, a=2) }}",
    "{% macro m(a) %}{{ a }}|{{ varargs }}|{{ kwargs }}{% endmacro %}{{ m(1, 2, 3, k=4) }} {{ m() }}", "{% macro m(a, b=1, c) %}{% endmacro %}", "{% macro m(a, b=a ~ '!') %}{{ b }}{% endmacro %}{{ m('x') }}",
    "{% macro box(t) %}<{{ t }}>{{ caller() }}</{{ t }}>{% endmacro %}{% call box('b') %}in {{ n }}{% endcall %}", "{% macro each(xs) %}{% for x in xs %}{{ caller(x, loop.index) }};{% endfor %}{% endmacro %}{% call(x, i) each(xs) %}{{ i }}:{{ x }}{% endcall %}",
    "{% macro m() %}{{ caller is defined }}{% endmacro %}{{ m() }}", "{% macro m() %}x{% endmacro %}{% call m() %}y{% endcall %}", "{% call 1 %}{% endcall %}",
    "{% for x in xs %}{% macro m(y) %}{{ x }}{{ y }}{% endmacro %}{{ m(9) }} {% endfor %}", "{% macro outer(v) %}{% macro inner(w) %}{{ v }}{{ w }}{% if w > 0 %}{{ inner(w - 1) }}{% endif %}{% endmacro %}{{ inner(2) }}{% endmacro %}{{ outer('a') }}",
    "{% macro m() %}{{ later }}{% endmacro %}{% set later = 5 %}{{ m() }}", "{% set v = 1 %}{% macro m() %}{% set v = 2 %}{{ v }}{% endmacro %}{{ m() }}{{ v }}", "{%- macro m(x) -%}\n  {{ x }}\n{%- endmacro -%}[{{ m('a') }}]",
    "{% with a = 1, b = n %}{{ a }}{{ b }}{% set a = 5 %}{{ a }}{% endwith %}{{ a is defined }}", "{% with %}{% set q = 1 %}{{ q }}{% endwith %}{{ q is defined }}", "{% filter upper %}a {{ s }}{% endfilter %}", "{% filter replace('a', 'b') | title %}banana{% endfilter %}",
    "{% set x | trim | upper %}  a {{ n }} {% endset %}[{{ x }}]", "{% set x %}{% set y = 1 %}{{ y }}{% endset %}{{ x }}{{ y is defined }}", "{% filter nofilter %}{% endfilter %}", "{% generation %}{% set g = 1 %}{{ g }}{% endgeneration %}{{ g is defined }}",
    "{{ 'x' if f }}", "{{ [3, 1, 2] | sort }} {{ ['b', 'A', 'c'] | sort }} {{ ['b', 'A', 'c'] | sort(case_sensitive=true) }} {{ xs | sort(reverse=true) }} {{ messages | sort(attribute='role') | map(attribute='role') | list }}",
    "{{ [{'a': 2, 'b': 1}, {'a': 1, 'b': 2}, {'a': 1, 'b': 1}] | sort(attribute='a,b') }} {{ [[2, 'x'], [1, 'y']] | sort(attribute=0) }} {{ [[2, 'x'], [1, 'y']] | map(attribute='1') | list }} {{ d | dictsort | list }} {{ {'b': 1, 'A': 2} | dictsort }} {{ {'b': 1, 'A': 2} | dictsort(by='value') }} {{ {'b': 1, 'A': 2} | dictsort(true, reverse=true) }}",
    "{{ [1, 'a'] | sort }}", "{{ [1, 1, 2, 'a', 'A'] | unique | list }} {{ ['a', 'A'] | unique(case_sensitive=true) | list }} {{ messages | unique(attribute='role') | map(attribute='role') | list }}", "{{ xs | min }} {{ xs | max }} {{ ['b', 'A'] | min }} {{ ['b', 'A'] | max(case_sensitive=true) }} {{ [] | max }} {{ [{'v': 3}, {'v': 1}] | min(attribute='v') }} {{ xs | sum }} {{ [{'v': 3}, {'v': 1}] | sum(attribute='v') }} {{ xs | sum(start=10) }} {{ [] | sum }}",
    "{{ [1, 2, 3, 4, 5] | batch(2) | list }} {{ [1, 2, 3] | batch(2, 0) | list }} {{ [1, 2, 3, 4, 5] | slice(3) | list }} {{ [1, 2, 3, 4] | slice(3, 'x') | list }}", "{% for k, g in messages | groupby('role') %}{{ k }}:{{ g | length }} {% endfor %}", "{% for k, g in [{'c': 'a'}, {'c': 'B'}, {'c': 'A'}, {}] | groupby('c', default='z') %}{{ k }}:{{ g | length }} {% endfor %}",
    "{{ 2.567 | round(2) }} {{ 2.5 | round }} {{ 3.5 | round }} {{ 42 | round }} {{ 2.1 | round(method='ceil') }} {{ 2.9 | round(0, 'floor') }} {{ 1.005 | round(2) }} {{ 7 | round(1, 'floor') }}", "{{ '<a href=\"x\">&\\'' | e }} {{ '<b>' | escape }}", "{{ '%s has %d of %.2f' | format('a', 3, 2.5) }} {{ '%5d|%-5s|%05.1f|%x|%%' | format(42, 'ab', 3.14159, 255) }} {{ '%s' | format([1, 'a']) }} {{ '%r' | format('a') }} {{ '%+d' | format(3) }}", "{{ '%s and %s' % ('a', 'b') }} {{ '%s' % n }} {{ '%(k)s' % {'k': 'v'} }} {{ '%d%%' % 50 }}", "{{ '%d' % 'a' }}", "{{ '%s %s' % 'a' }}", "{{ '%s' % ('a', 'b') }}", "{{ '%y' % 1 }}",
    "{{ '{} {}'.format('a', 1) }} {{ '{1}{0}'.format('a', 'b') }} {{ '{k}!'.format(k='v') }} {{ '{{}}'.format() }} {{ '{:>5}|{:<5}|{:^5}|{:*^7}'.format('a', 'b', 'c', 'd') }} {{ '{:.2f} {:5d} {:05d} {:,} {:x} {:+}'.format(3.14159, 42, 42, 1234567, 255, 3) }} {{ '{!r}'.format('a') }} {{ '{:.1%}'.format(0.256) }} {{ '{:5}|{:.3}'.format(1, 'abcdef') }}", "{{ '{} {}'.format('a') }}", "{{ '{'.format(1) }}", "{{ '{:d}'.format(1.5) }}",
    "{{ {'b': 1, 'a': [1, 2]} | tojson(sort_keys=true) }} {{ {'b': 1, 'a': [1, 2]} | tojson(separators=(',', ':')) }} {{ 'é😀' | tojson(ensure_ascii=true) }} {{ u | tojson(true) }} {{ d | tojson(indent=4, ensure_ascii=false) }} {{ {'a': {}, 'b': []} | tojson(indent=1) }} {{ d | tojson(indent=2, separators=(',', ': ')) }}", "{{ '<|x|> & \\\\ / \\x01 \\x7f' | tojson }} {{ 1e16 | tojson }} {{ 100000.0 | tojson }} {{ (1, 2) | tojson }} {{ none | tojson }}", "{{ missing | tojson }}",
    "{{ '\u3000\u00a0 a \u2003' | trim }}|{{ '\u3000x\u3000'.strip() }}|{{ 'éaé'.strip('é') }}|{{ '\u00a0a\u3000b'.split() }}|{{ ' a\u2003b '.rsplit(none, 1) }}", "{{ 'a,b,c'.rsplit(',', 1) }} {{ 'a b  c '.rsplit() }} {{ 'a b c '.rsplit(none, 1) }} {{ ' a b c '.split(none, 1) }} {{ 'a,b'.split(sep=',', maxsplit=0) }} {{ ',a,'.rsplit(',') }} {{ '  '.split() }} {{ ' '.split(' ') }}", "{{ 'a\nb\r\nc\n'.splitlines() }} {{ 'a\nb'.splitlines(true) }} {{ ''.splitlines() }}", "{{ ''.split('') }}",
    "{{ 'aXbXc'.partition('X') }} {{ 'aXbXc'.rpartition('X') }} {{ 'a'.partition('X') }} {{ 'a'.rpartition('X') }} {{ 'abc'.removeprefix('a') }} {{ 'abc'.removesuffix('c') }} {{ 'abc'.removeprefix('x') }} {{ 'banana'.count('an') }} {{ 'été'.count('') }} {{ 'banana'.rfind('an') }} {{ 'banana'.index('n') }} {{ 'aaa'.replace('a', 'b', 2) }} {{ 'ab'.replace('', '-') }} {{ 'aaa' | replace('a', 'b', 1) }}", "{{ 'a'.index('z') }}",
    "{{ ', '.join(['a', 'b']) }} {{ '-'.join('abc') }} {{ ''.join([]) }}", "{{ ','.join([1]) }}", "{{ '12'.isdigit() }}{{ ''.isdigit() }}{{ 'a1'.isalnum() }}{{ 'a1'.isalpha() }}{{ ' '.isspace() }}{{ 'Ab'.isupper() }}{{ 'AB1'.isupper() }}{{ 'ab'.islower() }}{{ '1'.islower() }}", "{{ 'a'.ljust(3) }}|{{ 'a'.rjust(3, '.') }}|{{ 'a'.center(4) }}|{{ 'ab'.center(5) }}|{{ '-7'.zfill(4) }}|{{ 'abc'.zfill(2) }}",
    "{{ d.copy().a }} {{ xs.index(1) }} {{ xs.count(3) }} {{ xs.copy() }} {{ {'items': 1}['items'] }} {{ {'items': 1}.items() | list }} {{ {'get': 7}.get('get') }} {{ {'x': {'items': {'type': 'string'}}}.x['items'].type }}", "{{ xs.append(1) }}", "{{ d.update({'a': 2}) }}", "{{ d.pop('a') }}", "{{ xs.index(9) }}", "{{ xs.nothing }}", "{{ xs.nothing() }}",
    "{{ 'abc' is lower }} {{ 'ABC' is upper }} {{ 'Ab' is upper }} {{ 'upper' is filter }} {{ 'nope' is filter }} {{ 'odd' is test }} {{ 1 is sameas 1 }} {{ none is sameas none }} {{ 2 is greaterthan 1 }} {{ 1 is lessthan 2 }} {{ s is callable }} {{ range is callable }} {{ xs | select('>', 1) | list }} {{ xs | select('==', 3) | list }} {{ xs | reject('in', [1, 3]) | list }} {{ xs | select('!=', 3) | list }}", "{{ n is not in [1] }} {{ n is in [7] }} {{ 'a' is in 'abc' }} {{ not n is odd }} {{ n is odd and t is true }}",
    "{{ dict(a=1, b='x') }} {{ dict([('a', 1)], b=2) }} {{ dict({'q': 1}) }} {% set ns = namespace({'a': 1}, b=2) %}{{ ns.a }}{{ ns.b }}{{ ns['a'] }}", "{% set ns = namespace() %}{{ ns.x is defined }}{% set ns.x = [] %}{% set ns.x = ns.x + [1] %}{{ ns.x }}",
    "{{ strftime_now('%Y-%m-%d') }} {{ strftime_now('%d %b %Y') }} {{ strftime_now('%A, %B %d, %H:%M:%S') }}", "{{ messages | map(attribute='content') | map('trim') | map('length') | list }} {{ messages | map('attr', 'role') | list }} {{ xs | map('default', 1) | list }} {{ messages | selectattr('role', 'in', ['user', 'system']) | list | length }} {{ messages | selectattr('name', 'defined') | list }} {{ messages | selectattr('content') | list | length }} {{ messages | rejectattr('name') | list | length }}",
    "{{ messages | last | tojson }} {{ (messages | first).role }} {{ messages[-1].content | trim | length }} {{ messages[::-1][0].role }} {{ messages[:-1] | length }} {{ messages[-2:] | map(attribute='role') | join }} {{ xs[::2] }} {{ xs[-1:0:-1] }}", "{{ d.c is sequence and d.c is not string and d.c is not mapping }} {{ d.c is iterable }}", "{{ true and 'a' or 'b' }} {{ none or '' or 'c' }} {{ (none if t else 1) is none }}", "{{ 'a' ~ 1 + 2 ~ 'b' }} {{ 10 - 2 - 3 }} {{ 2 * 3 % 4 }} {{ not true == false }}",
    "{{ -1 | abs }} {{ 'a' 'b' | upper }} {{ ('a' ~ 'b') | upper }} {{ 'a' ~ 'b' | upper }} {{ '1' + 2 | string ~ 'x' }}", "{% if n == 7 and not f or missing is defined %}y{% endif %}", "{% if xs %}a{% endif %}{% if [] %}b{% endif %}{% if {} %}c{% endif %}{% if 0 %}d{% endif %}{% if '0' %}e{% endif %}", "{% set xs2 = xs + [9] %}{{ xs2 | length }}{{ xs2[-1] }}", "{% set a = {'k': [1, {'z': 2}]} %}{{ a.k[1].z }} {{ a['k'][1]['z'] }} {{ a.k[1]['q'] is defined }}",
    "{% do 1 %}", "{% include 'x' %}", "{% set x = ", "{{ s | trim( }}", "{{ 'a' if }}", "{{ [1, 2 }}", "{% for x in xs %}{% endmacro %}", "{{ s.upper( }}", "{{ raise_exception() }}", "{{ '\\ud83d' }}", "{{ '\\xZZ' }}", "{% break %}", "{% set a.b.c = 1 %}", "{{ 1 if 2 else }}", "{{ **x }}",
]

TOOLS = [{"type": "function", "function": {"name": "get_weather", "description": "Weather of a city; says \"unknown\" if it is.", "parameters": {"type": "object", "properties": {"city": {"type": "string", "description": "Name <of> the city"}, "days": {"type": "array", "items": {"type": "integer"}}, "unit": {"type": "string", "enum": ["C", "F"]}}, "required": ["city"]}}},
         {"type": "function", "function": {"name": "now", "description": "The time", "parameters": {"type": "object", "properties": {}}}}]
PLAIN = [{"role": "system", "content": "  You are terse.  "}, {"role": "user", "content": "Hi there \n"}, {"role": "assistant", "content": "Hello!"}, {"role": "user", "content": "Wie geht's? 😀"}]
WITH_TOOLS = [{"role": "user", "content": "Weather in Łódź?"}, {"role": "assistant", "content": "", "reasoning_content": "\nI need the tool.\n", "tool_calls": [{"id": "abc123def", "type": "function", "function": {"name": "get_weather", "arguments": {"city": "Łódź", "unit": "C"}}}, {"id": "abc123deg", "type": "function", "function": {"name": "now", "arguments": {}}}]},
              {"role": "tool", "tool_call_id": "abc123def", "name": "get_weather", "content": "{\"t\": 21}"}, {"role": "tool", "tool_call_id": "abc123deg", "name": "now", "content": "12:00"}, {"role": "assistant", "content": "<think>\nfine\n</think>\n\n21 °C."}, {"role": "user", "content": "Thanks"}]
NO_SYSTEM = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}]
WRONG_ORDER = [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]
CONVERSATIONS = [{"messages": PLAIN}, {"messages": WITH_TOOLS, "tools": TOOLS}, {"messages": NO_SYSTEM, "tools": None, "add_generation_prompt": False}, {"messages": WRONG_ORDER}, {"messages": PLAIN, "tools": TOOLS, "enable_thinking": False}]

CHATML = """{%- for message in messages %}
    {{- '<|im_start|>' ~ message.role ~ '\n' ~ (message.content | trim) ~ '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"""

LLAMA3 = """{{- bos_token }}
{%- if not date_string is defined %}
    {%- if strftime_now is defined %}
        {%- set date_string = strftime_now("%d %b %Y") %}
    {%- else %}
        {%- set date_string = "1 Jan 2024" %}
    {%- endif %}
{%- endif %}
{%- if not tools is defined %}{%- set tools = none %}{%- endif %}
{#- the first message may be the system's #}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content'] | trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\n\n" }}
{%- if tools is not none %}
    {{- "Environment: tools\n" }}
{%- endif %}
{{- "Date: " + date_string + "\n\n" }}
{%- if tools is not none %}
    {{- 'Answer with JSON {"name": function, "parameters": object}.\n\n' }}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\n\n" }}
    {%- endfor %}
{%- endif %}
{{- system_message }}
{{- "<|eot_id|>" }}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' + message['content'] | trim + '<|eot_id|>' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls | length == 1 %}
            {{- raise_exception("One tool call at a time, not " ~ (message.tool_calls | length)) }}
        {%- endif %}
        {%- set tool_call = message.tool_calls[0].function %}
        {{- '<|start_header_id|>assistant<|end_header_id|>\n\n{"name": "' + tool_call.name + '", "parameters": ' }}
        {{- tool_call.arguments | tojson }}
        {{- "}<|eot_id|>" }}
    {%- else %}
        {{- "<|start_header_id|>ipython<|end_header_id|>\n\n" }}
        {%- if message.content is mapping or message.content is iterable and message.content is not string %}
            {{- message.content | tojson }}
        {%- else %}
            {{- message.content }}
        {%- endif %}
        {{- "<|eot_id|>" }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}
{%- endif %}
"""

QWEN3 = """{%- if tools %}
    {{- '<|im_start|>system\n' }}
    {%- if messages[0].role == 'system' %}{{- messages[0].content + '\n\n' }}{%- endif %}
    {{- "# Functions\n<tools>" }}
    {%- for tool in tools %}
        {{- "\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\n</tools><|im_end|>\n" }}
{%- else %}
    {%- if messages[0].role == 'system' %}
        {{- '<|im_start|>system\n' + messages[0].content + '<|im_end|>\n' }}
    {%- endif %}
{%- endif %}
{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi_step_tool and message.role == "user" and message.content is string and not(message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}
        {%- set ns.multi_step_tool = false %}
        {%- set ns.last_query_index = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.content is string %}{%- set content = message.content %}{%- else %}{%- set content = '' %}{%- endif %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\n' + content + '<|im_end|>' + '\n' }}
    {%- elif message.role == "assistant" %}
        {%- set reasoning_content = '' %}
        {%- if message.reasoning_content is string %}
            {%- set reasoning_content = message.reasoning_content %}
        {%- else %}
            {%- if '</think>' in content %}
                {%- set reasoning_content = content.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n') %}
                {%- set content = content.split('</think>')[-1].lstrip('\n') %}
            {%- endif %}
        {%- endif %}
        {%- if loop.index0 > ns.last_query_index and (loop.last or (not loop.last and reasoning_content)) %}
            {{- '<|im_start|>' + message.role + '\n<think>\n' + reasoning_content.strip('\n') + '\n</think>\n\n' + content.lstrip('\n') }}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\n' + content }}
        {%- endif %}
        {%- if message.tool_calls %}
            {%- for tool_call in message.tool_calls %}
                {%- if (loop.first and content) or (not loop.first) %}{{- '\n' }}{%- endif %}
                {%- if tool_call.function %}{%- set tool_call = tool_call.function %}{%- endif %}
                {{- '<tool_call>\n{"name": "' }}{{- tool_call.name }}{{- '", "arguments": ' }}
                {%- if tool_call.arguments is string %}{{- tool_call.arguments }}{%- else %}{{- tool_call.arguments | tojson }}{%- endif %}
                {{- '}\n</tool_call>' }}
            {%- endfor %}
        {%- endif %}
        {{- '<|im_end|>\n' }}
    {%- elif message.role == "tool" %}
        {%- if loop.first or (messages[loop.index0 - 1].role != "tool") %}{{- '<|im_start|>user' }}{%- endif %}
        {{- '\n<tool_response>\n' }}{{- content }}{{- '\n</tool_response>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}{{- '<|im_end|>\n' }}{%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\n\n</think>\n\n' }}{%- endif %}
{%- endif %}"""

MISTRAL = """{%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{%- if not tools is defined %}{%- set tools = none %}{%- endif %}
{%- set user_messages = loop_messages | selectattr("role", "equalto", "user") | list %}
{%- set ns = namespace() %}
{%- set ns.index = 0 %}
{%- for message in loop_messages %}
    {%- if not (message.role == "tool" or message.role == "tool_results" or (message.tool_calls is defined and message.tool_calls is not none)) %}
        {%- if (message["role"] == "user") != (ns.index % 2 == 0) %}
            {{- raise_exception("Roles must alternate: user, assistant, user, assistant") }}
        {%- endif %}
        {%- set ns.index = ns.index + 1 %}
    {%- endif %}
{%- endfor %}
{{- bos_token }}
{%- for message in loop_messages %}
    {%- if message["role"] == "user" %}
        {%- if tools is not none and (message == user_messages[-1]) %}
            {{- "[AVAILABLE_TOOLS] [" }}
            {%- for tool in tools %}
                {%- set tool = tool.function %}
                {{- '{"type": "function", "function": {' }}
                {%- for key, val in tool.items() if key != "return" %}
                    {%- if val is string %}{{- '"' + key + '": "' + val + '"' }}{%- else %}{{- '"' + key + '": ' + val|tojson }}{%- endif %}
                    {%- if not loop.last %}{{- ", " }}{%- endif %}
                {%- endfor %}
                {{- "}}" }}
                {%- if not loop.last %}{{- ", " }}{%- else %}{{- "]" }}{%- endif %}
            {%- endfor %}
            {{- "[/AVAILABLE_TOOLS]" }}
        {%- endif %}
        {%- if loop.last and system_message is defined %}
            {{- "[INST] " + system_message + "\n\n" + message["content"] + "[/INST]" }}
        {%- else %}
            {{- "[INST] " + message["content"] + "[/INST]" }}
        {%- endif %}
    {%- elif message.tool_calls is defined and message.tool_calls is not none %}
        {{- "[TOOL_CALLS] [" }}
        {%- for tool_call in message.tool_calls %}
            {%- set out = tool_call.function|tojson %}
            {{- out[:-1] }}
            {%- if not tool_call.id is defined or tool_call.id|length != 9 %}{{- raise_exception("Ids of tool calls have 9 characters") }}{%- endif %}
            {{- ', "id": "' + tool_call.id + '"}' }}
            {%- if not loop.last %}{{- ", " }}{%- else %}{{- "]" + eos_token }}{%- endif %}
        {%- endfor %}
    {%- elif message["role"] == "assistant" %}
        {{- " " + message["content"]|trim + eos_token}}
    {%- elif message["role"] == "tool_results" or message["role"] == "tool" %}
        {%- if message.content is defined and message.content.content is defined %}{%- set content = message.content.content %}{%- else %}{%- set content = message.content %}{%- endif %}
        {{- '[TOOL_RESULTS] {"content": ' + content|string + ", " }}
        {{- '"call_id": "' + message.tool_call_id + '"}[/TOOL_RESULTS]' }}
    {%- else %}
        {{- raise_exception("Only user and assistant roles, with an optional system message first") }}
    {%- endif %}
{%- endfor %}
"""

GEMMA3 = """{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
    {%- if messages[0]['content'] is string -%}
        {%- set first_user_prefix = messages[0]['content'] + '

' -%}
    {%- else -%}
        {%- set first_user_prefix = messages[0]['content'][0]['text'] + '

' -%}
    {%- endif -%}
    {%- set loop_messages = messages[1:] -%}
{%- else -%}
    {%- set first_user_prefix = "" -%}
    {%- set loop_messages = messages -%}
{%- endif -%}
{%- for message in loop_messages -%}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}
        {{ raise_exception("Turns must go user/model/user/model") }}
    {%- endif -%}
    {%- if (message['role'] == 'assistant') -%}{%- set role = "model" -%}{%- else -%}{%- set role = message['role'] -%}{%- endif -%}
    {{ '<start_of_turn>' + role + '
' + (first_user_prefix if loop.first else "") }}
    {%- if message['content'] is string -%}
        {{ message['content'] | trim }}
    {%- elif message['content'] is iterable -%}
        {%- for item in message['content'] -%}
            {%- if item['type'] == 'image' -%}{{ '<start_of_image>' }}{%- elif item['type'] == 'text' -%}{{ item['text'] | trim }}{%- endif -%}
        {%- endfor -%}
    {%- else -%}
        {{ raise_exception("Odd content") }}
    {%- endif -%}
    {{ '<end_of_turn>
' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{'<start_of_turn>model
'}}
{%- endif -%}
"""

DEEPSEEK = """{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}{% set ns = namespace(is_first=false, is_tool=false, is_output_first=true, system_prompt='', is_first_sp=true) %}{%- for message in messages %}{%- if message['role'] == 'system' %}{%- if ns.is_first_sp %}{% set ns.system_prompt = ns.system_prompt + message['content'] %}{% set ns.is_first_sp = false %}{%- else %}{% set ns.system_prompt = ns.system_prompt + '\\n\\n' + message['content'] %}{%- endif %}{%- endif %}{%- endfor %}{{ bos_token }}{{ ns.system_prompt }}{%- for message in messages %}{%- if message['role'] == 'user' %}{%- set ns.is_tool = false -%}{{'<｜User｜>' + message['content']}}{%- endif %}{%- if message['role'] == 'assistant' and 'tool_calls' in message %}{%- set ns.is_tool = false -%}{%- for tool in message['tool_calls'] %}{%- if not ns.is_first %}{{'<｜Assistant｜><｜tool▁calls▁begin｜><｜tool▁call▁begin｜>' + tool['type'] + '<｜tool▁sep｜>' + tool['function']['name'] + '\\n' + '```json' + '\\n' + tool['function']['arguments'] | tojson + '\\n' + '```' + '<｜tool▁call▁end｜>'}}{%- set ns.is_first = true -%}{%- else %}{{'\\n' + '<｜tool▁call▁begin｜>' + tool['type'] + '<｜tool▁sep｜>' + tool['function']['name'] + '<｜tool▁call▁end｜>'}}{%- endif %}{%- endfor %}{{'<｜tool▁calls▁end｜><｜end▁of▁sentence｜>'}}{%- endif %}{%- if message['role'] == 'assistant' and 'tool_calls' not in message %}{%- if ns.is_tool %}{{'<｜tool▁outputs▁end｜>' + message['content'] + '<｜end▁of▁sentence｜>'}}{%- set ns.is_tool = false -%}{%- else %}{% set content = message['content'] %}{% if '</think>' in content %}{% set content = content.split('</think>')[-1] %}{% endif %}{{'<｜Assistant｜>' + content + '<｜end▁of▁sentence｜>'}}{%- endif %}{%- endif %}{%- if message['role'] == 'tool' %}{%- set ns.is_tool = true -%}{%- if ns.is_output_first %}{{'<｜tool▁outputs▁begin｜><｜tool▁output▁begin｜>' + message['content'] + '<｜tool▁output▁end｜>'}}{%- set ns.is_output_first = false %}{%- else %}{{'\\n<｜tool▁output▁begin｜>' + message['content'] + '<｜tool▁output▁end｜>'}}{%- endif %}{%- endif %}{%- endfor -%}{% if ns.is_tool %}{{'<｜tool▁outputs▁end｜>'}}{% endif %}{% if add_generation_prompt and not ns.is_tool %}{{'<｜Assistant｜><think>\\n'}}{% endif %}"""

# A tool schema turned into type-script-like text by recursive macros, as some models want it.
MACROS = """{%- macro render_type(schema, level=0) -%}
    {%- if schema.enum -%}
        {{- schema.enum | map('tojson') | join(' | ') -}}
    {%- elif schema.type == 'object' -%}
        {%- if schema.properties -%}
            {{- '{\n' -}}
            {%- for name, prop in schema.properties.items() -%}
                {%- if prop.description -%}{{- '  ' * (level + 1) ~ '// ' ~ prop.description ~ '\n' -}}{%- endif -%}
                {{- '  ' * (level + 1) ~ name ~ ('' if name in (schema.required or []) else '?') ~ ': ' ~ render_type(prop, level + 1) ~ (',' if not loop.last) ~ '\n' -}}
            {%- endfor -%}
            {{- '  ' * level ~ '}' -}}
        {%- else -%}{}{%- endif -%}
    {%- elif schema.type == 'array' -%}
        {{- render_type(schema['items'], level) ~ '[]' -}}
    {%- elif schema.type in ['integer', 'number'] -%}number
    {%- else -%}{{ schema.type | default('any') }}
    {%- endif -%}
{%- endmacro -%}
{%- macro section(title) %}## {{ title | title }}
{{ caller() }}
{% endmacro -%}
{%- if tools %}
{%- call section('functions') %}namespace functions {
{% for tool in tools | map(attribute='function') | sort(attribute='name') %}
// {{ tool.description | indent(3) }}
type {{ tool.name }} = (_: {{ render_type(tool.parameters) }}) => any;
{% endfor %}
}{% endcall %}
{%- endif %}
{%- for group in messages | groupby('role') %}{{ group[0] ~ '=' ~ group[1] | length ~ ';' }}{% endfor %}"""


def raise_exception(message=""):
    raise ValueError(message)


def main():
    from jinja2 import nodes
    from jinja2.ext import Extension

    class Generation(Extension):
        tags = {"generation"}

        def parse(self, parser):
            line = next(parser.stream).lineno
            return nodes.Scope(parser.parse_statements(["name:endgeneration"], drop_needle=True)).set_lineno(line)

    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols, Generation])
    environment.filters["tojson"] = lambda x, ensure_ascii=False, indent=None, separators=None, sort_keys=False: json.dumps(
        x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = lambda form: datetime.datetime.fromtimestamp(NOW, datetime.timezone.utc).strftime(form)
    chats = [(template, extra) for template in (CHATML, LLAMA3, QWEN3, MISTRAL, GEMMA3, DEEPSEEK, MACROS) for extra in CONVERSATIONS]
    for template, extra in [(template, {}) for template in TEMPLATES + MORE] + chats:
        case = {"template": template}
        if extra:
            case["context"] = extra
        try:
            expected = environment.from_string(template).render(**{**CONTEXT, **extra})
            expected.encode()  # no lone surrogates
            case["expected"] = expected
        except Exception as error:  # whatever the reference refuses, we refuse
            print(f"{template[:60]!r}: {error}", file=sys.stderr)
            case["error"] = True
        print(json.dumps(case, ensure_ascii=False))


if __name__ == "__main__":
    print(json.dumps({"context": CONTEXT}, ensure_ascii=False))
    main()
