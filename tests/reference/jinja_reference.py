#!/usr/bin/env python3
"""Writes tests/data/golden/jinja_cases.jsonl: templates and what the reference (PyPI jinja2, set up as transformers does) makes of them.

Run: pip install jinja2; python3 tests/reference/jinja_reference.py > tests/data/golden/jinja_cases.jsonl
The first line is {"context"}, each other one {"template", "expected"} or {"template", "error": true}.
"""
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


def raise_exception(message):
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
    environment.filters["tojson"] = lambda x, ensure_ascii=False, indent=None: json.dumps(x, ensure_ascii=ensure_ascii, indent=indent)
    environment.globals["raise_exception"] = raise_exception
    for template in TEMPLATES:
        case = {"template": template}
        try:
            case["expected"] = environment.from_string(template).render(**CONTEXT)
        except Exception as error:  # whatever the reference refuses, we refuse
            print(f"{template[:60]!r}: {error}", file=sys.stderr)
            case["error"] = True
        print(json.dumps(case, ensure_ascii=False))


if __name__ == "__main__":
    print(json.dumps({"context": CONTEXT}, ensure_ascii=False))
    main()
