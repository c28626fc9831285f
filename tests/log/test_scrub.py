"""Scrubbing: no planted secret survives anywhere, nothing innocent changes, and once is enough."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_loom import LogBuilder, LogError
from pytest_loom.log.event import MAX_DEPTH
from pytest_loom.log.scrub import DEFAULT, Scrubber, Secret, find_secrets

# Made up, and put together here so that nobody's scanner takes them for keys that were committed.
RANDOM = "a1B2c3D4e5F6g7H8" + "i9J0k1L2m3N4o5P6" + "q7R8s9T0"
HEX = "0123456789abcdef" * 2
KEYS = {
    "openai-key": ["sk-" + RANDOM, "sk-proj-" + RANDOM + "-x_y" + RANDOM, "sk-svcacct-" + RANDOM, "sk-" + HEX],
    "anthropic-key": ["sk-ant-" + "api03-" + RANDOM + "-AA"],
    "openrouter-key": ["sk-or-" + "v1-" + HEX * 2],
    "google-key": ["AIza" + "Sy" + RANDOM[:33], "ya29." + "a0" + RANDOM, "GOCSPX-" + RANDOM[:28]],
    "aws-key-id": ["AKIA" + "ABCDEFGH23456777", "ASIA" + "ZYXWVUTS76543222"],
    "github-token": ["gh" + letter + "_" + RANDOM[:36] for letter in "pousr"] + ["github_" + "pat_" + RANDOM],
    "gitlab-token": ["glpat-" + RANDOM[:20], "glpat-" + "ab-CD_ef-GH_12-ab-CD"],
    "slack-token": ["xox" + letter + "-123456789012-" + RANDOM[:24] for letter in "abpr"],
    "stripe-key": ["sk_" + "live_" + RANDOM[:24], "sk_" + "test_" + RANDOM[:24], "rk_" + "live_" + RANDOM[:24]],
    "webhook-secret": ["whsec_" + RANDOM[:32], "whsec_" + "ab/CD+" + RANDOM[:26]],
    "huggingface-token": ["hf_" + RANDOM[:34], "hf_" + "aBcDeFgHiJkLmNoPqRsTuVwXyZaBcDeFgH"],
    "groq-key": ["gsk_" + RANDOM],
    "perplexity-key": ["pplx-" + RANDOM],
    "xai-key": ["xai-" + RANDOM],
    "replicate-token": ["r8_" + RANDOM[:37]],
    "twilio-key": ["AC" + HEX, "SK" + HEX],
    "sendgrid-key": ["SG." + RANDOM[:22] + "." + RANDOM + "abc", "SG." + "a1B2c3-D4e5F6_g7H8i9J0" + "." + RANDOM],
    "npm-token": ["npm_" + RANDOM[:36]],
    "pypi-token": ["pypi-" + "AgEIcHlwaS5vcmc" + RANDOM],
    "langsmith-key": ["lsv2_" + "pt_" + HEX + "_0123456789"],
    "databricks-token": ["dapi" + HEX],
    "jwt": ["eyJ" + "hbGciOiJIUzI1NiJ9" + ".eyJ" + "zdWIiOiIxMjM0NTY3ODkwIn0" + "." + RANDOM],
}
SHAPES = [(kind, key) for kind, keys in KEYS.items() for key in keys]
PEM = "-----BEGIN RSA " + "PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nMIIE" + RANDOM + "\n+/" + RANDOM + "==\n"
AWS_SECRET = "wJalrXUtnFEMI/K7MDENG/" + "bPxRfiCYzzzzzzzzKE"
PASS = "hunter2" + "Zq"


def encoded(value: Any) -> bytes:
    """The bytes that the recorder would hand over."""
    return msgspec.json.encode(value)


def nested(value: Any, times: int = 1) -> str:
    """JSON text, or JSON text as a string of JSON text."""
    text = json.dumps(value)
    return text if times == 1 else nested(text, times - 1)


PLACES: list[Callable[[str], Any]] = [
    lambda key: {"note": key},
    lambda key: {"messages": [{"role": "user", "content": f"Please use {key} for this, and be quick."}]},
    lambda key: [f"({key})", f"'{key}'", f"`{key}`.", f"<{key}>", f"a,{key},b", f"x={key}", f"{key}\n{key}"],
    lambda key: {"output": {"stdout": f"line one\n{key}\tend"}},
    lambda key: {"error": {"type": "ValueError", "message": f"401: incorrect key provided: {key}."}},
    lambda key: {key: 1, "x": {f"key {key}": 2}},
    lambda key: {"arguments": nested({"a": [f"say\n{key}"]})},
    lambda key: {"arguments": nested({"a": {"b": key}}, 2)},
    lambda key: {"chunk": '{"a": "first line\\n' + key},
    lambda key: {"url": f"https://host/path?q=1&k={key}&z=2#top", "more": f"k%3D{key}%26z"},
    lambda key: [[["k", key]], {"name": "k", "value": key}],
]


class TestShapes:
    @pytest.mark.parametrize(("kind", "key"), SHAPES, ids=[f"{kind}-{key[:12]}" for kind, key in SHAPES])
    def test_a_key_survives_nowhere(self, kind: str, key: str) -> None:
        """Prompts, results, errors, names, nested JSON, URLs: the key is gone and its kind stands there."""
        for place in PLACES:
            value = place(key)
            assert key in str(value).replace("\\\\", "\\")
            for output in (DEFAULT.raw(encoded(value)).decode(), encoded(DEFAULT.value(value)).decode()):
                assert key[-14:] not in output
                assert key[:14] not in output
                assert f"<scrubbed:{kind}>" in output

    def test_a_key_hidden_behind_escapes_is_found(self) -> None:
        """JSON may write any letter as a number, also in text that is JSON itself."""
        key = KEYS["anthropic-key"][0]
        hidden = "".join(f"\\u{ord(char):04x}" for char in key)
        assert DEFAULT.raw(b'{"a":"%s"}' % hidden.encode()) == b'{"a":"<scrubbed:anthropic-key>"}'
        assert DEFAULT.value({"a": '{"b":"%s"}' % hidden}) == {"a": '{"b":"<scrubbed:anthropic-key>"}'}  # noqa: UP031

    @pytest.mark.parametrize("tail", ["-----END RSA PRIVATE KEY-----\nthen", ""])
    def test_a_private_key_goes_whole(self, tail: str) -> None:
        """From its first line to its last, or to the end of a text that was cut."""
        text = DEFAULT.text("Key:\n" + PEM + tail)
        assert text == "Key:\n<scrubbed:private-key>" + tail[-5:]
        assert RANDOM not in DEFAULT.raw(encoded({"a": nested({"pem": PEM + tail})})).decode()

    def test_an_aws_secret_goes_with_its_id(self) -> None:
        """It has no mark of its own, but a git hash next to it stays."""
        git = "da39a3ee5e6b4b0d3255bfef95601890afd80709"
        text = DEFAULT.text(f"{KEYS['aws-key-id'][0]}:{AWS_SECRET} at {git}")
        assert text == f"<scrubbed:aws-key-id>:<scrubbed:aws-secret-key> at {git}"

    @pytest.mark.parametrize(
        ("text", "scrubbed"),
        [
            (f"curl -H 'Bearer {RANDOM}' x", "curl -H 'Bearer <scrubbed:bearer>' x"),
            (f"postgresql://app:{PASS}@db:5432/x?a=b", "postgresql://app:<scrubbed:password>@db:5432/x?a=b"),
            (f"redis://:{PASS}@cache/0", "redis://:<scrubbed:password>@cache/0"),
            (f"https://me:p@{PASS}@host/", "https://me:<scrubbed:password>@host/"),
            (f"https://x.blob/c?sv=1&sig={RANDOM}%3D&se=2", "https://x.blob/c?sv=1&sig=<scrubbed:signature>&se=2"),
            ("//acc;AccountKey=ab+/" + RANDOM + "==;Suffix=x", "//acc;AccountKey=<scrubbed:secret-key>;Suffix=x"),
            (f"host=db user=me password={PASS} dbname=x", "host=db user=me password=<scrubbed:password> dbname=x"),
            (f"Server=db;Pwd={PASS};", "Server=db;Pwd=<scrubbed:password>;"),
            (f"?a=1&api_key={PASS}&b=2", "?a=1&api_key=<scrubbed:api-key>&b=2"),
            (f"?access_token={PASS}", "?access_token=<scrubbed:access-token>"),
            (f"q=api_key%3D{PASS}", "q=api_key%3D<scrubbed:api-key>"),
            (f"export OPENAI_API_KEY={PASS}\n", "export OPENAI_API_KEY=<scrubbed:api-key>\n"),
            (f"Authorization: Bearer {PASS}\nAccept: x", "Authorization: <scrubbed:authorization>\nAccept: x"),
            ("'Authorization: Basic dXNlcjpwYXNz'", "'Authorization: <scrubbed:authorization>'"),
            ("Cookie: sid=abc; theme=dark\nHost: x", "Cookie: <scrubbed:cookie>\nHost: x"),
            (f"run --api-key {PASS} --quiet", "run --api-key <scrubbed:api-key> --quiet"),
            (f"x: {{'password': '{PASS}', 'n': 1}}", "x: {'password': '<scrubbed:password>', 'n': 1}"),
            (f'say {{\\"api_key\\": \\"{PASS}\\"}}', 'say {\\"api_key\\": \\"<scrubbed:api-key>\\"}'),
            (f'cut {{"secret": "a\\"{PASS}\\\\", "n": 1', 'cut {"secret": "<scrubbed:secret>", "n": 1'),
            (f'cut {{"clientSecret": "{PASS}', 'cut {"clientSecret": "<scrubbed:secret>'),
            (f'headers["X-Api-Key"] = "{PASS}"', 'headers["X-Api-Key"] = "<scrubbed:api-key>"'),
            (f"password: {PASS}.", "password: <scrubbed:password>."),
            (f"connect(password={PASS})", "connect(password=<scrubbed:password>)"),
            (f"token={RANDOM}", "token=<scrubbed:token>"),
        ],
    )
    def test_a_secret_in_a_text_goes_and_the_rest_stays(self, text: str, scrubbed: str) -> None:
        """Commands, URLs, connection strings, headers and pieces of JSON or code keep what is no secret."""
        assert DEFAULT.text(text) == scrubbed
        assert DEFAULT.text(scrubbed) == scrubbed
        assert DEFAULT.raw(encoded({"a": [text]})) == encoded({"a": [scrubbed]})


class TestNames:
    @pytest.mark.parametrize(
        ("name", "kind"),
        [
            ("Authorization", "authorization"),
            ("proxy-authorization", "authorization"),
            ("Set-Cookie", "cookie"),
            ("x-api-key", "api-key"),
            ("apiKey", "api-key"),
            ("API KEY", "api-key"),
            ("AZURE_OPENAI_API_KEY", "api-key"),
            ("accessToken", "access-token"),
            ("refresh_token", "access-token"),
            ("client-secret", "secret"),
            ("webhookSecret", "secret"),
            ("aws_secret_access_key", "secret-key"),
            ("privateKey", "private-key"),
            ("DB_PASSWORD", "password"),
            ("passwd", "password"),
            ("pwd", "password"),
            ("passphrase", "password"),
            ("password2", "password"),
            ("credentials", "credentials"),
        ],
    )
    def test_what_stands_under_a_telling_name_goes(self, name: str, kind: str) -> None:
        """However it is written, whatever the value is, and wherever headers put it."""
        shown = f"<scrubbed:{kind}>"
        for value in ("x", 1234, 1.5):
            assert DEFAULT.value({"a": {name: value}}) == {"a": {name: shown}}
            assert DEFAULT.raw(encoded({"a": {name: value}})) == encoded({"a": {name: shown}})
        assert DEFAULT.value({name: ["x", {"y": ["z", None]}]}) == {name: [shown, {"y": [shown, None]}]}
        assert DEFAULT.value({"headers": [[name, "x"], ("b", "c")]}) == {"headers": [[name, shown], ["b", "c"]]}
        assert DEFAULT.value([{"name": name, "value": "x"}]) == [{"name": name, "value": shown}]
        assert DEFAULT.value({"args": nested({name: "x"})}) == {"args": encoded({name: shown}).decode()}
        nothing: list[Any] = ["", None, True, False, [], {}]
        for empty in nothing:
            kept = {name: empty}
            assert DEFAULT.value(kept) is kept

    def test_a_token_is_a_secret_where_it_looks_like_one(self) -> None:
        """Not a count, not a word that a model said, not the way to the next page."""
        assert DEFAULT.value({"token": RANDOM, "githubToken": RANDOM}) == {
            "token": "<scrubbed:token>",
            "githubToken": "<scrubbed:token>",
        }
        kept = {"token": " Hello", "max_tokens": 4096, "token_count": 3, "next_page_token": RANDOM, "eosToken": "</s>"}
        assert DEFAULT.value(kept) is kept

    def test_command_lines_in_lists_are_read(self) -> None:
        """The word after --password is one."""
        assert DEFAULT.value(["x", "--password", "abc", "--n", "2"]) == [
            "x",
            "--password",
            "<scrubbed:password>",
            "--n",
            "2",
        ]

    def test_a_tool_that_takes_a_password_keeps_its_schema(self) -> None:
        """A parameter's description is no secret, but an example in it may be."""
        schema = {"type": "string", "description": "At least 8 letters", "minLength": 8}
        kept = {"parameters": {"properties": {"password": schema}, "required": ["password", "name"]}}
        assert DEFAULT.value(kept) is kept
        assert DEFAULT.value({"password": {**schema, "default": "x"}}) == {
            "password": {**schema, "default": "<scrubbed:password>"}
        }

    def test_two_names_that_are_keys_stay_two_entries(self) -> None:
        """Both have the same placeholder, so that the second is numbered."""
        first, second = KEYS["github-token"][:2]
        value = DEFAULT.value({first: 1, second: 2})
        assert value == {"<scrubbed:github-token>": 1, "<scrubbed:github-token>#2": 2}
        assert DEFAULT.value(value) is value


INNOCENT = [
    {"id": "0b9d4f0e-8f1c-4a55-9a3e-5f2d1c7b8a90", "task": "task-20240117-0012-abcdefgh12345678"},
    {"sha": "da39a3ee5e6b4b0d3255bfef95601890afd80709", "callId": "call_Ab12Cd34Ef56Gh78Ij90Kl12"},
    {"text": "the sk-test-run and risk-assessment-of-the-customer-2024, sk-learn-1-2-3-compatible-notes-v2"},
    {
        "image": "data:image/png;base64,"
        + "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5E"
    },
    {"usage": {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15, "max_tokens": None}},
    {"order": "4711", "iban": "DE89370400440532013000", "mail": "someone@example.com", "n": 1234567890123456789},
    {"text": "Password: at least eight letters. The secret: be kind. Authorization: needed. Cookie: chocolate."},
    {"text": "Reset your password, then your API key; tokens: 512. The token limit is 4096 (token: word)."},
    {"code": "def connect(password: str, token=None):\n    api_key = os.environ['OPENAI_API_KEY']\n    pw = getpass()"},
    {"code": "client = OpenAI(api_key=api_key, password=settings.password, secret=get_secret(1), token=self.token)"},
    {"sh": "curl -H 'Authorization: Bearer $TOKEN' -d password=${PASSWORD} --api-key $KEY https://x:$PW@h/"},
    {
        "url": "http://localhost:8080/@vite/client?a=b@c.d",
        "ssh": "ssh://git@host:22/x",
        "git": "git@github.com:a/b.git",
    },
    {"text": "npm_config_registry_url_v2 hf_model_loading_config_v2 xai-explainability-2024-paper ASIA and AKIA"},
    {"text": "hf_internalTestingModelsForNow, SG.something_long_enough_1.22"},
    {"text": "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----", "p": "C:\\new\\users"},
    {"idempotencyKey": "k1", "correlationKey": "order-1", "key": "approved", "author": "A", "keys": ["a"]},
    {"required": ["password", "user"], "enum": ["api_key", "oauth"], "bearer of news": 1, "secretary": "Ann"},
    {"text": "Bearer authentication and Basic training; eyJ is how they start...", "e": "half \ud83d\ude00 ü"},
    {"a": '{"b": [1, 2.50, {"c":"d"}]}', "signature": RANDOM, "session_id": RANDOM, "public_key": RANDOM},
    [[], {}, "", None, True, 0, -0.0, 1e300, 2**60],
]


class TestInnocents:
    @pytest.mark.parametrize("value", INNOCENT, ids=range(len(INNOCENT)))
    def test_what_is_no_secret_stays_what_it_is(self, value: Any) -> None:
        """The same object comes back: nothing was replaced, nothing was copied."""
        data = json.dumps(value).encode()
        assert DEFAULT.value(value) is value
        assert DEFAULT.raw(data) is data
        text = json.dumps(value, ensure_ascii=False)
        assert DEFAULT.text(text) is text

    def test_placeholders_are_no_secrets(self) -> None:
        """What was scrubbed is left alone, next to anything."""
        text = "password=<scrubbed:password> <scrubbed:jwt>, Bearer <scrubbed:bearer> x://u:<scrubbed:password>@h"
        assert DEFAULT.text(text) is text
        value = {"password": "<scrubbed:password>", "args": '{"api_key":"<scrubbed:api-key>"}'}
        assert DEFAULT.value(value) is value


FRAGMENTS = st.sampled_from(
    [key for _, key in SHAPES]
    + ["password", "api_key", "token", "Authorization", "Bearer ", "Cookie", "--secret ", "://u:", "@h", "sig=", "AKIA"]
    + ["=", ": ", '"', "'", "\\", "\\u0073", "\n", " ", ",", ";", "&", "{", "}", "[", "]", "<", ">", "%3D", ".", "-"]
    + ["<scrubbed:x>", "<scrubbed:password>", PASS, PEM, "eyJ", "sk-", "é", "\u212a", "\ud800", "0", "A" * 40]
)
TEXTS = st.lists(FRAGMENTS, max_size=9).map("".join) | st.text(max_size=12)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(TEXTS, inner, max_size=3)
        | st.dictionaries(TEXTS, inner, max_size=2).map(lambda value: nested(value))
    ),
    max_leaves=6,
)


class TestAlways:
    @given(VALUES)
    @settings(max_examples=300, deadline=None)
    def test_once_is_enough_and_nothing_is_changed_in_place(self, value: Any) -> None:
        """A second scrubbing gives the very object; the input is as before; a new scrubber says the same."""
        before = copy.deepcopy(value)
        once = DEFAULT.value(value)
        assert value == before
        assert DEFAULT.value(once) is once
        assert Scrubber().value(value) == once

    @given(VALUES)
    @settings(max_examples=300, deadline=None)
    def test_bytes_and_data_agree(self, value: Any) -> None:
        """The quick look at the bytes overlooks nothing that the data shows, in either way of writing JSON."""
        try:
            plain = msgspec.json.encode(value)
        except UnicodeEncodeError:
            return
        for data in (plain, json.dumps(value).encode()):
            scrubbed = DEFAULT.raw(data)
            assert msgspec.json.decode(scrubbed) == DEFAULT.value(msgspec.json.decode(data))
            assert DEFAULT.raw(scrubbed) == scrubbed

    @given(TEXTS)
    @settings(max_examples=300, deadline=None)
    def test_a_key_next_to_anything_is_gone(self, around: str) -> None:
        """Whatever stands before and after it, as long as it is no part of it."""
        for _, key in SHAPES[::7]:
            other = around.replace(key, " ")
            assert key not in DEFAULT.text(f"{other} {key} {other}")

    @pytest.mark.parametrize("kind", KEYS)
    def test_keys_of_one_kind_are_one_value(self, kind: str) -> None:
        """So a replay with another key asks for the same thing."""
        keys = KEYS[kind]
        other = keys[0][:-6] + "".join(reversed(keys[0][-6:]))
        assert {DEFAULT.text(f"use {key}!") for key in [*keys, other]} == {f"use <scrubbed:{kind}>!"}

    @pytest.mark.parametrize(
        "piece",
        [
            *("a", "sk-", "eyJ", "eyJ-", "-----BEGIN ", "-----BEGIN " + "PRIVATE KEY-----", '"', "\\", '\\"', "'"),
            *("password=", 'token="', 'token=\\"', "password: ", "--token ", "xapi_key", "://a:", "a@://b:"),
            *("Bearer ", "sig=", "{", '["', "AKIA", "SG.", "cookie: a=", "sk-a1-", "<scrubbed:", "token='token=\""),
        ],
    )
    def test_hostile_text_comes_to_an_end(self, piece: str) -> None:
        """A long repetition of what a rule starts with takes linear time, alone and in JSON."""
        text = piece * (200_000 // len(piece))
        scrubbed = DEFAULT.text(text)
        assert DEFAULT.text(scrubbed) == scrubbed
        assert msgspec.json.decode(DEFAULT.raw(encoded({"a": text}))) == {"a": scrubbed}

    def test_depth_is_bounded(self) -> None:
        """Data nested too deeply is refused, text of that kind is only text, and what is allowed works."""
        deep: Any = KEYS["jwt"][0]
        for _ in range(MAX_DEPTH):
            deep = [deep]
        assert "<scrubbed:jwt>" in str(encoded(DEFAULT.value(deep)))
        for refused in (lambda: DEFAULT.value([deep]), lambda: DEFAULT.raw(encoded([deep]))):
            with pytest.raises(LogError, match="deep"):
                refused()
        text = "[" * 600 + f'"{KEYS["jwt"][0]}"' + "]" * 600
        assert DEFAULT.text(text) == "[" * 600 + '"<scrubbed:jwt>"' + "]" * 600

    def test_what_is_no_json_is_refused(self) -> None:
        """Where a secret may be in it."""
        with pytest.raises(LogError, match="cannot be scrubbed"):
            DEFAULT.raw(b'{"password": ')

    def test_a_name_that_stands_twice_hides_nothing(self) -> None:
        """Who decodes sees the last one only, but the bytes would hold the first."""
        assert RANDOM not in DEFAULT.raw(b'{"a":"sk-%s","a":"b"}' % RANDOM.encode()).decode()


class TestOwnRules:
    def test_keys_are_names_of_secrets(self) -> None:
        """In data, in headers and in text; the kind is the name."""
        scrubber = Scrubber(keys=["tax_id", "PIN"])
        assert scrubber.raw(b'{"taxId":"x","pin":1,"spin":2}') == (
            b'{"taxId":"<scrubbed:tax-id>","pin":"<scrubbed:pin>","spin":2}'
        )
        assert scrubber.text("tax-id=12 and tax_ids=12") == "tax-id=<scrubbed:tax-id> and tax_ids=12"
        assert DEFAULT.value({"tax_id": "x"}) == {"tax_id": "x"}

    def test_patterns_find_more(self) -> None:
        """As text or compiled, in names too, but never in a placeholder."""
        scrubber = Scrubber(patterns=[r"[\w.]+@[\w.]+", re.compile("sCRub+ed|customer-[0-9]+", re.I)])
        value = scrubber.value({"me@x.org": ["to me@x.org, Customer-12", {"password": "x"}]})
        assert value == {
            "<scrubbed:pattern>": ["to <scrubbed:pattern>, <scrubbed:pattern>", {"password": "<scrubbed:password>"}]
        }
        assert scrubber.value(value) is value
        assert scrubber.raw(b'"a@b"') == b'"<scrubbed:pattern>"'

    def test_a_pattern_that_never_settles_ends(self) -> None:
        """It may match nothing, or everything."""
        assert Scrubber(patterns=["x*"]).text("axxb") == "a<scrubbed:pattern>b"
        assert Scrubber(patterns=["[^q]+"]).text("abc") == "<scrubbed:pattern>"

    def test_hooks_come_last_with_the_path(self) -> None:
        """Every leaf is shown, scrubbed, with where it stands; what comes back is written."""
        seen: list[tuple[str, Any]] = []

        def hook(path: str, value: Any) -> Any:
            seen.append((path, value))
            return "gone" if path == "a.b[0].c" else value

        value = {"a": {"b": [{"c": "name"}]}, "password": "x", "n": 1}
        assert Scrubber(hooks=[hook]).value(value) == {
            "a": {"b": [{"c": "gone"}]},
            "password": "<scrubbed:password>",
            "n": 1,
        }
        assert sorted(seen, key=str) == [("a.b[0].c", "name"), ("n", 1), ("password", "<scrubbed:password>")]
        assert Scrubber(hooks=[hook]).raw(b'{"a":{"b":[{"c":"x"}]}}') == b'{"a":{"b":[{"c":"gone"}]}}'

    def test_keep_lets_a_name_stay(self) -> None:
        """However it is written; what has the shape of a key goes all the same."""
        scrubber = Scrubber(keep=["token", "api_key"])
        kept = {"token": RANDOM, "apiKey": "x", "text": f"token={RANDOM}"}
        assert scrubber.value(kept) is kept
        assert scrubber.value({"api_key": "sk-" + RANDOM}) == {"api_key": "<scrubbed:openai-key>"}
        assert scrubber.value({"my_api_key": "x"}) == {"my_api_key": "<scrubbed:api-key>"}


class TestFindSecrets:
    def test_the_report_says_where_and_which_rule_but_not_the_secret(self) -> None:
        """Events, paths and kinds of what was recorded by somebody who does not scrub."""
        builder = LogBuilder("run", "refund")
        key = "sk-" + RANDOM
        builder.add("EXECUTION_STARTED", {"input": {"note": "nothing"}}, timestamp=1)
        builder.add("Noted", {"a": [{"password": PASS}, f"{key} and {key}"], key: 1}, timestamp=1)
        builder.add("Noted", {"args": nested({"api_key": PASS})}, timestamp=1)
        found = find_secrets(builder.log())
        assert sorted(found, key=str) == [
            Secret(2, "", "openai-key"),
            Secret(2, "a[0].password", "password"),
            Secret(2, "a[1]", "openai-key"),
            Secret(2, "a[1]", "openai-key"),
            Secret(3, "args", "api-key"),
        ]
        assert RANDOM not in str(found)

    def test_a_scrubbed_log_holds_none(self) -> None:
        """And neither does a clean one."""
        builder = LogBuilder("run", "refund")
        builder.add("Noted", DEFAULT.value({"password": PASS, "text": PEM}), timestamp=1)
        assert find_secrets(builder.log()) == []


@pytest.mark.parametrize(
    "text",
    [
        "Bearer {}",
        "Authorization: Bearer {}",
        "api_key={}",
        "https://user:{}@host/path",
        "https://host/path?token={}&page=1",
        "password: {}",
        "--token {}",
        "export OPENAI_API_KEY={}",
        '{{"api_key": "{}"}}',
        "key {} and Bearer {}",
    ],
)
def test_what_is_made_of_a_placeholder_is_what_was_made_of_the_secret(text: str) -> None:
    """A run that goes on from its log builds texts with placeholders: they are scrubbed to what the secret's were."""
    secret = "sk-proj-Abcdefghij0123456789Abcdefghij0123456789Abcdefghij"
    held = DEFAULT.text(secret)
    assert held == "<scrubbed:openai-key>"
    scrubbed = DEFAULT.text(text.replace("{}", secret).replace("{{", "{").replace("}}", "}"))
    assert secret not in scrubbed
    assert DEFAULT.text(text.replace("{}", held).replace("{{", "{").replace("}}", "}")) == scrubbed
    assert DEFAULT.text(scrubbed) == scrubbed
