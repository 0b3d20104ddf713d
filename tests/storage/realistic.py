"""Secrets as they occur in files, and text that looks like one, generated so that no scanner of this code finds any."""

from __future__ import annotations

import base64
import random
import string
from collections.abc import Iterator
from typing import NamedTuple

ALNUM = string.ascii_letters + string.digits
HEX = "0123456789abcdef"
BASE32 = string.ascii_uppercase + "234567"
SYMBOLS = ALNUM + "!#$%^&*+~"


class Sample(NamedTuple):
    """`secret` must be masked in `text`; "" for a text without secrets."""

    name: str
    text: str
    secret: str = ""


class Maker:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def of(self, letters: str, length: int) -> str:
        return "".join(self.random.choice(letters) for _ in range(length))

    def alnum(self, length: int) -> str:
        return self.of(ALNUM, length)

    def hex(self, length: int) -> str:
        return self.of(HEX, length)

    def base64(self, length: int) -> str:
        return base64.b64encode(self.random.randbytes(length)).decode()

    def uuid(self) -> str:
        return "-".join(self.hex(size) for size in (8, 4, 4, 4, 12))

    def jwt(self) -> str:
        parts = (b'{"alg":"HS256","typ":"JWT"}', b'{"sub":"%d"}' % self.random.randrange(10**9))
        head, body = (base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts)
        return f"{head}.{body}.{self.alnum(43)}"

    def pem(self, kind: str) -> tuple[str, str]:
        lines = [self.base64(48) for _ in range(8)]
        return "\n".join([f"-----BEGIN {kind}-----", *lines, f"-----END {kind}-----"]), lines[3]


def secrets(seed: int) -> Iterator[Sample]:
    m = Maker(seed)
    for name, text, value in (
        ("aws ini", "[default]\naws_access_key_id = " + "AK" + "IA" + m.of(BASE32, 16) + "\naws_secret_access_key = {}\n", m.base64(30)),
        ("aws env", "export AWS_SECRET_ACCESS_KEY={}\n", m.alnum(40)),
        ("aws session", "aws_session_token={}\n", "IQoJb3JpZ2luX2VjE" + m.base64(150)),
        ("github classic", "git clone https://{}@github.com/a/b.git\n", "gh" + "p_" + m.alnum(36)),
        ("github fine", "GH_TOKEN={}\n", "github" + "_pat_" + m.alnum(22) + "_" + m.alnum(59)),
        ("gitlab", "GITLAB_TOKEN: {}\n", "gl" + "pat-" + m.alnum(20)),
        ("slack bot", "slack: {}\n", "xo" + "xb-" + m.of(string.digits, 12) + "-" + m.of(string.digits, 13) + "-" + m.alnum(24)),
        ("slack hook", "url: https://hooks.slack.com/services/T" + m.of(BASE32, 8) + "/B" + m.of(BASE32, 8) + "/{}\n", m.alnum(24)),
        ("stripe", "stripe.api_key = '{}'\n", "sk" + "_live_" + m.alnum(24)),
        ("sendgrid", "SENDGRID_API_KEY={}\n", "SG" + "." + m.alnum(22) + "." + m.alnum(43)),
        ("twilio", "TWILIO_AUTH_TOKEN={}\n", m.hex(32)),
        ("mailgun", "mailgun_api_key: {}\n", m.hex(32) + "-" + m.hex(8) + "-" + m.hex(8)),
        ("openai", 'openai_key = "{}"\n', "sk" + "-proj-" + m.alnum(74) + "T3Blbk" + "FJ" + m.alnum(74)),
        ("anthropic", "ANTHROPIC_API_KEY={}\n", "sk" + "-ant-api03-" + m.alnum(93) + "AA"),
        ("google", "const key = '{}';\n", "AI" + "za" + m.alnum(35)),
        ("azure storage", "DefaultEndpointsProtocol=https;AccountName=a;AccountKey={};EndpointSuffix=core.windows.net\n", m.base64(64)),
        ("azure bus", "Endpoint=sb://a.servicebus.windows.net/;SharedAccessKeyName=Root;SharedAccessKey={}\n", m.base64(32)),
        ("azure client", "AZURE_CLIENT_SECRET={}\n", m.alnum(3) + "8Q~" + m.alnum(34)),
        ("npm token", "//registry.npmjs.org/:_authToken={}\n", "np" + "m_" + m.alnum(36)),
        ("npm auth", "//npm.example.com/:_auth={}\n", base64.b64encode(f"ci:{m.alnum(16)}".encode()).decode()),
        ("npm uuid", "//npm.example.com/:_authToken={}\n", m.uuid()),
        ("pypi", "password = {}\n", "py" + "pi-AgEIcHlwaS5vcmc" + m.alnum(150)),
        ("docker", '{{"auths": {{"ghcr.io": {{"auth": "{}"}}}}}}\n', base64.b64encode(f"bob:{m.alnum(20)}".encode()).decode()),
        ("kubeconfig key", "users:\n- name: a\n  user:\n    client-key-data: {}\n", m.base64(900)),
        ("kubeconfig token", "    token: {}\n", m.jwt()),
        ("bearer jwt", "curl -H 'Authorization: Bearer {}' https://x.test\n", m.jwt()),
        ("bearer opaque", "Authorization: Bearer {}\n", m.alnum(40)),
        ("basic", 'headers = {{"Authorization": "Basic {}"}}\n', base64.b64encode(f"svc:{m.alnum(14)}".encode()).decode()),
        ("wireguard", "[Interface]\nPrivateKey = {}\nAddress = 10.0.0.2/32\n", m.base64(32)),
        ("wireguard shared", "[Peer]\nPresharedKey = {}\n", m.base64(32)),
        ("netrc", "machine api.example.com login bob password {}\n", m.alnum(14)),
        ("netrc lines", "machine api.example.com\n  login bob\n  password {}\n", m.of(SYMBOLS, 18)),
        ("postgres url", "DATABASE_URL=postgres://app:{}@db.example.com:5432/app\n", m.alnum(18)),
        ("mongo url", "uri: mongodb+srv://app:{}@cluster0.example.net/app\n", m.alnum(16)),
        ("redis url", "redis://:{}@cache.example.com:6379/0\n", m.alnum(24)),
        ("amqp url", "amqp://worker:{}@mq.internal/\n", m.of(ALNUM + "!*~", 16)),
        ("pgpass", "db.example.com:5432:app:bob:{}\n", m.alnum(16)),
        ("django", "SECRET_KEY = 'django-insecure-{}'\n", m.of(string.ascii_lowercase + string.digits + "!@#$%^&*(-_=+)", 50)),
        ("rails", "  secret_key_base: {}\n", m.hex(128)),
        ("jwt secret", "JWT_SECRET={}\n", m.hex(64)),
        ("datadog", "DD_API_KEY={}\n", m.hex(32)),
        ("heroku", "HEROKU_API_KEY={}\n", m.uuid()),
        ("digitalocean", "token: {}\n", "do" + "p_v1_" + m.hex(64)),
        ("cloudflare", "CLOUDFLARE_API_TOKEN={}\n", m.of(ALNUM + "_-", 40)),
        ("dotenv password", "DB_PASSWORD={}\n", m.of(SYMBOLS, 22)),
        ("terraform", '  password          = "{}"\n', m.of(SYMBOLS, 24)),
        ("sql server", "Server=tcp:a.database.windows.net;User ID=bob;Password={};Encrypt=True\n", m.of(ALNUM + "!*+", 20)),
        ("spring", "spring.datasource.password={}\n", m.alnum(24)),
        ("javascript", 'const config = {{ apiKey: "{}", region: "eu" }};\n', m.alnum(32)),
        ("header", "X-Api-Key: {}\n", m.alnum(32)),
    ):  # fmt: skip
        yield Sample(name, text.format(value), value)


def private_keys(seed: int) -> Iterator[Sample]:
    m = Maker(seed)
    for kind in ("RSA PRIVATE KEY", "OPENSSH PRIVATE KEY", "EC PRIVATE KEY", "PGP PRIVATE KEY BLOCK"):
        yield Sample(kind, *m.pem(kind))


def innocent(seed: int) -> Iterator[Sample]:
    """Ordinary text of repositories, which must reach the model unchanged."""
    m = Maker(seed)
    certificate, _ = m.pem("CERTIFICATE")
    public, _ = m.pem("PUBLIC KEY")
    minified = "".join(
        f"function {m.of(string.ascii_letters, 2)}(e,t){{return e.{m.of(string.ascii_lowercase, 4)}(t[{n}])}}"
        for n in range(60)
    )
    for name, text in (
        ("git id", f"commit {m.hex(40)}\n"),
        ("submodule", f" {m.hex(40)} vendor/lib (v1.2.3-4-g{m.hex(7)})\n"),
        ("class", "class TestHTTPConnectionPoolManagerWithRetries2(Base):\n"),
        ("private key left out", "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----\n"),
        ("getpass", "API_KEY = os.environ['ANTHROPIC_API_KEY']\npassword = getpass()\n"),
        ("short hash", f"integrity sha512-{m.alnum(20)}==\n"),
        ("uuid", f"id = '{m.uuid()}'\n"),
        ("request id", f"X-Request-Id: {m.uuid()}\n"),
        ("npm lock", f'"integrity": "sha512-{m.base64(64)}",\n'),
        ("yarn lock", f"  resolved \"https://registry.yarnpkg.com/a/-/a-1.2.3.tgz#{m.hex(40)}\"\n"),
        ("poetry lock", f'    {{file = "a-1.0.tar.gz", hash = "sha256:{m.hex(64)}"}},\n'),
        ("cargo lock", f'checksum = "{m.hex(64)}"\n'),
        ("go.sum", f"github.com/a/b v1.2.3 h1:{m.base64(32)}\n"),
        ("nix", f'hash = "sha256-{m.base64(32)}";\n'),
        ("gradle", f'<sha256 value="{m.hex(64)}" origin="Generated by Gradle"/>\n'),
        ("docker digest", f"FROM python:3.12@sha256:{m.hex(64)}\n"),
        ("action pin", f"uses: actions/checkout@{m.hex(40)}  # v4\n"),
        ("etag", f'ETag: "{m.hex(32)}"\n'),
        ("cache key", f'cache_key = "{m.hex(32)}"\n'),
        ("public key", public + "\n"),
        ("public key value", f'jwt_public_key: "{m.base64(120)}"\n'),
        ("ssh key", f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{m.base64(32)} bob@example.com\n"),
        ("certificate", certificate + "\n"),
        ("cluster certificate", f"    certificate-authority-data: {m.base64(900)}\n"),
        ("wireguard peer", f"[Peer]\nPublicKey = {m.base64(32)}\nAllowedIPs = 0.0.0.0/0\n"),
        ("assembly", "Version=4.0.0.0, Culture=neutral, PublicKeyToken=b77a5c561934e089\n"),
        ("image", f'<img src="data:image/png;base64,{m.base64(600)}">\n'),
        ("font", f"src: url(data:font/woff2;base64,{m.base64(600)}) format('woff2');\n"),
        ("minified", minified + "\n"),
        ("placeholder", "API_TOKEN=your-token-here-0123456789abcdef\nSECRET_KEY=<your secret key of 50 characters>\n"),
        ("shell variable", "curl -H \"Authorization: Bearer ${GITHUB_TOKEN_OF_CI_2}\" -u \"$USER:$PASSWORD_OF_CI\" $URL\n"),
        ("workflow", "  token: ${{ secrets.RELEASE_GITHUB_TOKEN_V2 }}\n"),
        ("template", "password: {{ vault_database_password_2024 | quote }}\n"),
        ("process.env", "const apiKey = process.env.STRIPE_API_KEY_V2_EU1;\n"),
        ("os.environ", "SECRET_KEY = os.environ['DJANGO_SECRET_KEY_2']\nAPI_KEY = getenv(\"ACME_KEY_V1\")\n"),
        ("call", "token = self.tokenizer_v2.nextTokenFromStream3(buffer16)\n"),
        ("identifier", 'translation_key = "settings.account2FA.enableTwoFactorAuthV2Title"\n'),
        ("manual url", "url = 'postgres://user:password@localhost:5432/db'\nmysql://root:changeme@127.0.0.1/x\n"),
        ("manual aws", "aws_access_key_id=" + "AKIAIOSFODNN7" + "EXAMPLE\naws_secret_access_key=wJalrXUtnFEMI/" + "K7MDENG/bPxRfiCY" + "EXAMPLEKEY\n"),
        ("manual basic", "Authorization: Basic " + base64.b64encode(b"Aladdin:open sesame").decode() + "\n"),
        ("manual netrc", "machine example.com login your-name password your-password\n"),
        ("path", "private_key: /etc/ssl/private/example2024.internal.key\nssl_key = 'certs/dev-2048-rsa-v3.pem'\n"),
        ("arn", f"kms_key = 'arn:aws:kms:eu-west-1:123456789012:key/{m.uuid()}'\n"),
        ("type", "def login(password: Annotated[str, MinLen8, MaxLen128], token: OAuth2PasswordBearerV2) -> Session:\n"),
        ("fixture", 'password = "correct-horse-battery-staple"\ntoken = "test-token-for-user-one"\n'),
    ):  # fmt: skip
        yield Sample(name, text)
