/**
 * The corpus for redaction: values with a secret, and ordinary values that resemble one. All are generated when the tests run, from a fixed
 * seed and from parts, so that no secret scanner reports the sources.
 */
import type { Schema } from "effect"
import { generateKeyPairSync } from "node:crypto"
import { crc32 } from "node:zlib"
import * as ApiKeyFormat from "../../../../src/domain/identity/ApiKeyFormat.ts"
import { Redacted } from "effect"
import { everyday, MARK, withPasswords, withTokens } from "./everyday.ts"

/** A value, and the texts that must not be left in it. */
export interface Case {
  readonly what: string
  readonly value: Schema.Json
  readonly secrets: ReadonlyArray<string>
}

/** A value that must stay unchanged. */
export interface Ordinary {
  readonly what: string
  readonly value: Schema.Json
}

/** A seeded generator: the same values in each run. */
export class SeededRandom {
  #state: number

  constructor(seed: number) {
    this.#state = seed
  }

  /** Mulberry32. */
  number(below: number): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below
  }

  of(alphabet: string, length: number): string {
    return Array.from({ length }, () => alphabet.charAt(this.number(alphabet.length))).join("")
  }
}

const lower = "abcdefghijklmnopqrstuvwxyz"
const digits = "0123456789"
const upper = lower.toUpperCase()
const base62 = digits + upper + lower
const base32 = `${upper}234567`
const hexDigits = "0123456789abcdef"
const urlSafe = `${base62}-_`
const base64 = `${base62}+/`

/** The CRC-32 in base62 at the end of GitHub's and npm's tokens. */
const crc62 = (text: string): string => {
  let rest = crc32(text)
  let out = ""
  for (let place = 0; place < 6; place++) {
    out = base62.charAt(rest % 62) + out
    rest = Math.floor(rest / 62)
  }
  return out
}

/** The organization's own secrets, for cases with known values. */
export const known = (draw: SeededRandom) => ({
  signing: `whsec_${Buffer.from(draw.of(base62, 32)).toString("base64")}`,
  header: `Api-Token ${draw.of(base62, 40)}`,
  credential: draw.of(base62, 40),
  weak: "monsoon-umbrella",
  provider: `prov-${draw.of(lower, 6)}-${draw.of(base62, 24)}`
})

const apiKey = (draw: SeededRandom): string =>
  Redacted.value(
    ApiKeyFormat.generateApiKeyFrom((size) => Uint8Array.from({ length: size }, () => draw.number(248))).key
  )

/** Secrets in the formats of their providers' documentation. */
export const providerSecrets = (
  draw: SeededRandom
): ReadonlyArray<readonly [what: string, secret: string]> => {
  const github = (prefix: string) => {
    const body = draw.of(base62, 30)
    return `${prefix}_${body}${crc62(body)}`
  }
  const grafana = `glsa_${draw.of(base62, 32)}`
  const uuid = () => [8, 4, 4, 4, 12].map((length) => draw.of(hexDigits, length)).join("-")
  return [
    ["our own key", apiKey(draw)],
    ["GitHub personal", github("ghp")],
    ["GitHub OAuth", github("gho")],
    ["GitHub app user", github("ghu")],
    ["GitHub app server", github("ghs")],
    ["GitHub refresh", github("ghr")],
    ["npm", github("npm")],
    ["GitHub fine-grained", `github_pat_${draw.of(base62, 22)}_${draw.of(base62, 59)}`],
    ["GitLab personal", `glpat-${draw.of(urlSafe, 19)}7`],
    ["AWS access key id", `AKIA${draw.of(base32, 15)}7`],
    ["AWS session key id", `ASIA${draw.of(base32, 15)}4`],
    ["Google API", `AIza${draw.of(urlSafe, 35)}`],
    ["Google OAuth secret", `GOCSPX-${draw.of(urlSafe, 28)}`],
    ["Google OAuth token", `ya29.${draw.of(urlSafe, 60)}5`],
    ["OpenAI project", `sk-proj-${draw.of(urlSafe, 74)}T3BlbkFJ${draw.of(urlSafe, 74)}`],
    ["OpenAI old", `sk-${draw.of(base62, 20)}T3BlbkFJ${draw.of(base62, 20)}`],
    ["OpenAI service account", `sk-svcacct-${draw.of(urlSafe, 60)}`],
    ["Anthropic", `sk-ant-api03-${draw.of(urlSafe, 93)}AA`],
    ["Hugging Face", `hf_${draw.of(upper + lower, 34)}`],
    ["Groq", `gsk_${draw.of(base62, 52)}`],
    ["xAI", `xai-${draw.of(base62, 80)}`],
    ["Replicate", `r8_${draw.of(base62, 37)}`],
    ["Perplexity", `pplx-${draw.of(base62, 48)}`],
    ["OpenRouter", `sk-or-v1-${draw.of(hexDigits, 64)}`],
    ["LangSmith", `lsv2_pt_${draw.of(hexDigits, 32)}_${draw.of(hexDigits, 10)}`],
    ["Langfuse", `sk-lf-${uuid()}`],
    ["Stripe live", `sk_live_${draw.of(base62, 23)}9`],
    ["Stripe restricted", `rk_live_${draw.of(base62, 23)}2`],
    ["Stripe webhook", `whsec_${draw.of(base62, 31)}3`],
    ["Slack bot", `xoxb-${draw.of(digits, 12)}-${draw.of(digits, 12)}-${draw.of(base62, 24)}`],
    [
      "Slack user",
      `xoxp-${draw.of(digits, 12)}-${draw.of(digits, 12)}-${draw.of(digits, 12)}-${draw.of(hexDigits, 32)}`
    ],
    ["Slack app", `xapp-1-A${draw.of(upper + digits, 10)}-${draw.of(digits, 13)}-${draw.of(hexDigits, 64)}`],
    ["SendGrid", `SG.${draw.of(urlSafe, 22)}.${draw.of(urlSafe, 43)}`],
    ["Mailgun", `key-${draw.of(hexDigits, 32)}`],
    ["MailChimp", `${draw.of(hexDigits, 32)}-us14`],
    ["Brevo", `xkeysib-${draw.of(hexDigits, 64)}-${draw.of(base62, 16)}`],
    ["Twilio", `SK${draw.of(hexDigits, 32)}`],
    ["Telegram bot", `${draw.of("123456789", 10)}:AA${draw.of(urlSafe, 33)}`],
    ["Discord bot", `M${draw.of(base62, 23)}.${draw.of(base62, 6)}.${draw.of(urlSafe, 38)}`],
    ["Shopify", `shpat_${draw.of(hexDigits, 32)}`],
    ["Square", `sq0atp-${draw.of(urlSafe, 21)}8`],
    ["DigitalOcean", `dop_v1_${draw.of(hexDigits, 64)}`],
    ["Databricks", `dapi${draw.of(hexDigits, 32)}`],
    ["Vault", `hvs.${draw.of(urlSafe, 90)}`],
    ["Terraform Cloud", `${draw.of(base62, 14)}.atlasv1.${draw.of(urlSafe, 67)}`],
    ["Azure client secret", `${draw.of(base62, 3)}8Q~${draw.of(urlSafe, 34)}`],
    ["PyPI", `pypi-AgEIcHlwaS5vcmc${draw.of(urlSafe, 80)}`],
    ["RubyGems", `rubygems_${draw.of(hexDigits, 48)}`],
    ["Docker Hub", `dckr_pat_${draw.of(urlSafe, 27)}`],
    ["Linear", `lin_api_${draw.of(base62, 40)}`],
    ["Notion", `ntn_${draw.of(base62, 46)}`],
    ["Notion old", `secret_${draw.of(base62, 43)}`],
    ["Figma", `figd_${draw.of(urlSafe, 40)}`],
    ["Postman", `PMAK-${draw.of(hexDigits, 24)}-${draw.of(hexDigits, 34)}`],
    ["Airtable", `pat${draw.of(base62, 14)}.${draw.of(hexDigits, 64)}`],
    ["New Relic", `NRAK-${draw.of(upper + digits, 27)}`],
    ["Dynatrace", `dt0c01.${draw.of(base32, 24)}.${draw.of(base32, 64)}`],
    ["Grafana", `${grafana}_${crc32(grafana).toString(16).padStart(8, "0")}`],
    ["Sentry", `sntryu_${draw.of(hexDigits, 64)}`],
    ["Doppler", `dp.pt.${draw.of(base62, 43)}`],
    ["PlanetScale", `pscale_pw_${draw.of(urlSafe, 43)}`],
    ["Supabase", `sbp_${draw.of(hexDigits, 40)}`],
    ["Pulumi", `pul-${draw.of(hexDigits, 40)}`],
    ["Tailscale", `tskey-auth-${draw.of(base62, 12)}-${draw.of(base62, 30)}`],
    ["Netlify", `nfp_${draw.of(base62, 36)}`],
    ["HubSpot", `pat-na1-${uuid()}`],
    ["LaunchDarkly", `sdk-${uuid()}`],
    ["age", `AGE-SECRET-KEY-1${draw.of("QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L", 58)}`],
    [
      "1Password",
      `A3-${draw.of(upper + digits, 6)}-${draw.of(upper + digits, 11)}-${[5, 5, 5].map((length) => draw.of(upper + digits, length)).join("-")}`
    ],
    ["Facebook", `EAA${draw.of(base62, 160)}`]
  ]
}

const jwt = (draw: SeededRandom): string =>
  [
    { alg: "HS256", typ: "JWT" },
    { sub: draw.of(digits, 8), exp: 1_900_000_000 }
  ]
    .map((part) => Buffer.from(JSON.stringify(part)).toString("base64url"))
    .concat(draw.of(urlSafe, 43))
    .join(".")

const pem = (): string =>
  generateKeyPairSync("ec", { namedCurve: "P-256" })
    .privateKey.export({ type: "pkcs8", format: "pem" })
    .toString()

/** Inserts invisible characters between every few characters. */
const withInvisible = (text: string, mark: string): string => (text.match(/.{1,7}/g) ?? []).join(mark)

const percent = (text: string): string =>
  [...text].map((character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`).join("")

/** All cases that must be redacted. */
export const secretCases = (
  seed: number
): { readonly cases: ReadonlyArray<Case>; readonly known: ReadonlyArray<string> } => {
  const draw = new SeededRandom(seed)
  const ours = known(draw)
  const cases: Array<Case> = []
  const add = (what: string, value: Schema.Json, ...secrets: ReadonlyArray<string>) =>
    void cases.push({ what, value, secrets })

  for (const [what, secret] of providerSecrets(draw)) {
    add(what, { note: secret }, secret)
    add(`${what} in a sentence`, { note: `Use ${secret}, then try again.` }, secret)
  }
  for (const [what, secret] of Object.entries(ours)) {
    add(`known ${what}`, { a: [{ b: secret }] }, secret)
    add(`known ${what} in a sentence`, `He wrote "${secret}" down.`, secret)
    add(
      `known ${what} in base64`,
      Buffer.from(secret).toString("base64"),
      Buffer.from(secret).toString("base64")
    )
    const inside = Buffer.from(`x${secret}yz`).toString("base64")
    add(`known ${what} in base64 of more`, `data ${inside} end`, inside.slice(4, -6))
    add(
      `known ${what} in base64url`,
      Buffer.from(secret).toString("base64url"),
      Buffer.from(secret).toString("base64url")
    )
    add(`known ${what}, percent-encoded`, `https://example.com/?q=${percent(secret)}`, percent(secret))
    add(
      `known ${what}, partly percent-encoded`,
      encodeURIComponent(secret).replace("e", "%65"),
      encodeURIComponent(secret).slice(8)
    )
    add(`known ${what}, broken over lines`, withInvisible(secret, "\n"), ...pieces(secret))
    add(`known ${what}, broken over lines of a mail`, withInvisible(secret, "\r\n  "), ...pieces(secret))
    add(`known ${what} with zero-width spaces`, withInvisible(secret, "\u200b"), ...pieces(secret))
    add(`known ${what} as a name`, { [secret]: 1 }, secret)
  }
  add("the credential of a known header alone", ours.header.slice(10), ours.header.slice(10))

  const key = apiKey(draw)
  add("our key with soft hyphens", withInvisible(key, "\u00ad"), ...pieces(key))
  add("our key over two lines", `${key.slice(0, 40)}\n${key.slice(40)}`, key.slice(0, 40), key.slice(40))
  add(
    "our key in base64",
    Buffer.from(`key=${key}`).toString("base64"),
    Buffer.from(`key=${key}`).toString("base64")
  )
  add("our key, percent-encoded", percent(key), percent(key))
  add(
    "our key, escaped as JSON does",
    [...key].map((c) => `\\u00${c.charCodeAt(0).toString(16)}`).join(""),
    "\\u0063\\u0073"
  )
  add(
    "our key in full-width letters",
    [...key].map((c) => String.fromCharCode(c.charCodeAt(0) + 0xfee0)).join(""),
    "\uff43\uff53\uff4b"
  )
  add("our key as a name", { [key]: "x" }, key)
  add("our key within another word's end", `x,${key}.`, key)
  add(
    "our key with a wrong checksum",
    `see ${key.slice(0, -1)}${key.endsWith("0") ? "1" : "0"}`,
    key.slice(21, -1)
  )
  add("our key, truncated", `see ${key.slice(0, 50)} there`, key.slice(21, 50))
  const github = `ghp_${draw.of(base62, 36)}`
  add("GitHub's form with a wrong checksum", { note: github }, github)
  const grafana = `glsa_${draw.of(base62, 32)}_${draw.of(hexDigits, 8)}`
  add("Grafana's form with a wrong checksum", { note: grafana }, grafana)
  add("two keys in one text", `${key} ${apiKey(draw)}`, key)

  for (const [what, secret] of providerSecrets(draw).slice(0, 30)) {
    add(`${what} with a zero-width joiner`, `${secret.slice(0, 3)}\u200d${secret.slice(3)}`, secret.slice(3))
    add(
      `${what} in base64`,
      Buffer.from(`token: ${secret}\n`).toString("base64"),
      Buffer.from(`token: ${secret}\n`).toString("base64").slice(0, -4)
    )
  }
  for (const [what, secret] of providerSecrets(draw).slice(0, 8)) {
    add(`${what} over two lines`, `see ${secret.slice(0, 20)}\n${secret.slice(20)} there`, secret.slice(20))
  }

  const armoured = pem()
  const body = armoured.split("\n").slice(1, -2)
  add("private key", { file: armoured }, ...body)
  add("private key without its end", armoured.slice(0, 120), body[0] ?? "")
  add("private key on one line", armoured.replaceAll("\n", " "), ...body)
  add("private key with written line ends", armoured.replaceAll("\n", "\\n"), ...body)
  add("private key in JSON in a text", JSON.stringify({ private_key: armoured }), ...body)
  add("old private key", armoured.replaceAll("PRIVATE KEY", "RSA PRIVATE KEY"), ...body)
  add("private key of OpenSSH", armoured.replaceAll("PRIVATE KEY", "OPENSSH PRIVATE KEY"), ...body)
  add(
    "private key of PGP",
    armoured.replaceAll("PRIVATE KEY", "PGP PRIVATE KEY BLOCK").replace("-----\n", "-----\nVersion: 1\n\n"),
    ...body
  )

  for (const where of ["", "see ", "session="]) {
    const token = jwt(draw)
    add(`JWT after "${where}"`, where + token, token)
  }
  const secret = draw.of(base62, 14)
  for (const scheme of [
    "https",
    "postgres",
    "postgresql+asyncpg",
    "mysql",
    "mongodb+srv",
    "amqps",
    "ftp",
    "smtp"
  ]) {
    add(`password in a ${scheme} URL`, `${scheme}://admin:${secret}@db.example.com:5432/app?x=1`, secret)
  }
  add("password in a redis URL without a user", `redis://:${secret}@cache:6379/0`, secret)
  add("weak password in a URL", "postgres://app:hunter2@db/app", "hunter2")
  add("token in a URL", `https://${draw.of(base62, 36)}a1@github.com/x/y.git`, "a1@")
  add(
    "Azure signature",
    `https://a.blob.core.windows.net/c?sv=2022&sig=${encodeURIComponent(`${draw.of(base64, 43)}=`)}&se=2030`,
    "&sig=A"
  )
  const slack = `${draw.of(upper + digits, 9)}/${draw.of(upper + digits, 11)}/${draw.of(base62, 24)}`
  add("Slack webhook", `https://hooks.slack.com/services/T${slack}`, slack)
  const discord = `${draw.of(digits, 18)}/${draw.of(urlSafe, 68)}`
  add("Discord webhook", `https://discord.com/api/webhooks/${discord}`, discord)
  const account = `${draw.of(base64, 86)}==`
  add(
    "Azure storage key",
    `DefaultEndpointsProtocol=https;AccountName=x;AccountKey=${account};EndpointSuffix=core.windows.net`,
    account
  )

  for (const opaque of [draw.of(base62, 32), draw.of(hexDigits, 40), draw.of(urlSafe, 24)]) {
    add("bearer", `Bearer ${opaque}`, opaque)
    add("authorization header", `Authorization: Bearer ${opaque}`, opaque)
    add(
      "authorization in a command",
      `curl -H "Authorization: Bearer ${opaque}" https://api.example.com`,
      opaque
    )
    add("authorization in JSON in a text", `{"headers":{"authorization":"Bearer ${opaque}"}}`, opaque)
    add("X-Api-Key header", `X-Api-Key: ${opaque}`, opaque)
    add("api key in prose", `my api key is ${opaque}, keep it`, opaque)
    add("API_KEY=", `API_KEY=${opaque}`, opaque)
    add("client_secret in a query", `https://example.com/cb?client_secret=${opaque}&state=1`, opaque)
    add("access token in YAML", `  access_token: "${opaque}"\n`, opaque)
    add("cookie", `Cookie: theme=dark; sid=${opaque}; lang=en`, opaque)
    add("set-cookie", `Set-Cookie: session=${opaque}; Path=/; HttpOnly`, opaque)
    add("secret field", { client_secret: opaque }, opaque)
    add("session field", { session: opaque }, opaque)
    add("token field", { user: { token: opaque } }, opaque)
    add("apiKey field", { config: [{ apiKey: opaque }] }, opaque)
    add("password field", { password: opaque }, opaque)
  }
  const basic = Buffer.from("admin:opensesame").toString("base64")
  add("basic", `Authorization: Basic ${basic}`, basic)
  add("basic alone", `Basic ${basic}`, basic)
  const aws = draw.of(base64, 40)
  add("AWS secret key", `aws_secret_access_key = ${aws}`, aws)
  add("AWS secret key in JSON", { SecretAccessKey: aws }, aws)

  for (const [text, password] of [
    ["password: hunter2", "hunter2"],
    ["The password is Sommer2026!", "Sommer2026"],
    ["Passwort: geheim99", "geheim99"],
    ["DB_PASSWORD=correct-horse-7", "correct-horse-7"],
    ['{"password":"tr0ub4dor&3"}', "tr0ub4dor"],
    ["pwd=Qwerty123", "Qwerty123"],
    ["--password s3cr3tPass", "s3cr3tPass"],
    ["curl -u admin:s3cr3tPass https://x", "s3cr3tPass"],
    ["user=app password=pr0d-pass host=db", "pr0d-pass"],
    ["my passphrase is blue42whale", "blue42whale"],
    ["the admin password was changed to: no; password = 'P@ssw0rd!'", "P@ssw0rd!"]
  ] as const) {
    add(`password in "${text.slice(0, 12)}…"`, { note: text }, password)
  }
  for (const [texts, drawn] of [
    [withPasswords, () => `Tr0ub4dor${draw.of(digits, 2)}`],
    [withTokens, () => draw.of(base62, 40)]
  ] as const) {
    for (const text of texts) {
      const given = drawn()
      add(`"${text.slice(0, 40)}"`, { note: text.replace(MARK, given) }, given)
    }
  }
  return { cases, known: [...Object.values(ours), ours.header.slice(10)] }
}

/** Parts that no redaction may leave: a split secret is still present in parts. */
const pieces = (secret: string): ReadonlyArray<string> =>
  (secret.match(/.{1,7}/g) ?? []).filter((piece) => piece.length === 7)

/** All cases that must stay unchanged: ordinary values that resemble secrets. */
export const ordinaryCases = (seed: number): ReadonlyArray<Ordinary> => {
  const draw = new SeededRandom(seed)
  const hex = (length: number) => draw.of(hexDigits, length)
  const uuid = () => [8, 4, 4, 4, 12].map((length) => hex(length)).join("-")
  const publicKey = generateKeyPairSync("ec", { namedCurve: "P-256" }).publicKey.export({
    type: "spki",
    format: "pem"
  })
  const values: ReadonlyArray<readonly [what: string, value: Schema.Json]> = [
    ["token that is an order", { token: "order-4411" }],
    ["session that is a day", { session: "monday morning" }],
    ["session that is a dated name", { session: "sess-2026-09-17-001" }],
    ["session that is a number", { session: "20260917001234567890" }],
    ["session that is a UUID", { session: uuid() }],
    ["token that is an object id", { token: "507f1f77bcf86cd799439011" }],
    ["session of ours", { session: `ses_0192a1b2c3d47abc8${hex(15)}` }],
    [
      "session that is a ULID",
      { session: "01HQ3K5V7X9ZB2C4D6F8G0H1J3", token: "01hq3k5v7x9zb2c4d6f8g0h1j3" }
    ],
    ["token that is an address in a chain", { token: `0x${hex(20)}${draw.of("0123456789ABCDEF", 20)}` }],
    ["identifier after a name in a text", { note: `sid: ${uuid()}, session=${uuid()}, token ${uuid()}` }],
    ["password that is a sentence", { password: "The customer forgot it and asked for a reset" }],
    ["secret that is a word", { secret: "cinnamon" }],
    ["secret ingredient", { secret_ingredient: "caramelised-onion-and-thyme" }],
    ["token count", { tokens: 1234, max_tokens: 4096, token: "42" }],
    ["authentication kind", { auth: "oauth2-authorization-code" }],
    ["authentication provider", { auth_provider: "google-workspace-directory" }],
    ["session title", { session: "Introduction-to-Machine-Learning-2026" }],
    ["credential kind", { credentials: "bachelor-of-science-mathematics" }],
    ["key of music", { key: "c-sharp-minor", api_key: "not-configured-yet" }],
    ["api key that is a placeholder", { api_key: "<your-api-key-goes-here>" }],
    ["template", { token: "${GITHUB_TOKEN_FOR_CI}", secret: "{{ vault.client_secret }}" }],
    ["masked", { password: "****************", token: "xxxxxxxxxxxxxxxxxxxxxxxx" }],
    ["digest by name", { password_sha256: hex(64), token_hash: hex(40), secret_digest: hex(64) }],
    ["identifier by name", { token_id: draw.of(base62, 24), session_id: hex(32) }],
    ["digest", { sha256: hex(64), etag: `"${hex(32)}"`, commit: hex(40) }],
    ["image digest", { image: `app@sha256:${hex(64)}` }],
    ["integrity", { integrity: `sha512-${draw.of(base64, 86)}` }],
    ["integrity with padding", { lock: `"integrity": "sha512-${draw.of(base64, 86)}==",` }],
    [
      "signature of 64 bytes",
      { signature: `${draw.of(base64, 86)}==`, note: `signed ${draw.of(base64, 86)}==` }
    ],
    ["digest under a secret name", { token: `sha256:${hex(64)}` }],
    ["trace", { trace_id: hex(32), span_id: hex(16) }],
    ["date under a secret name", { token: "2026-11-21T02:33:05.123Z" }],
    ["mail address under a secret name", { auth: "firstname.lastname@customer-success.example.com" }],
    ["URL under a secret name", { auth: "https://login.example.com/oauth2/v2/authorize?x=1" }],
    ["path under a secret name", { private_key: "/etc/ssl/private/example.com/server" }],
    ["class name under a secret name", { auth: "AuthenticationManagerBuilder" }],
    ["camel case under a secret name", { token: "nextContinuationTokenForListing" }],
    ["phone", { pin: "+49 30 1234567", phone: "0301234567890123" }],
    ["IBAN", { iban: "DE89370400440532013000" }],
    ["card", { card: "4111 1111 1111 1111" }],
    ["tracking number", { tracking: "1Z999AA10123456784" }],
    ["part numbers", { sku: "AKIABLE-2026-XL", part: "SK-2026-0001-BLUE" }],
    [
      "product that begins like a key",
      { sku: "sk-8472-blue-widget-large-2026", name: "sk-learn-pipeline-with-long-name" }
    ],
    ["model names", { model: "ghp_model_large_v2", package: "npm_config_registry_url_for_mirror" }],
    ["prefixes by name", { note: "Tokens start with ghp_, sk-, xoxb- or AKIA and are then random." }],
    ["our prefix by name", { note: "A key reads csk_, a public id, and a secret." }],
    ["cubic feet", { column: "cft_per_minute_of_the_larger_compressor_2026", unit: "340_cft_annual" }],
    ["publishable key", { stripe: `pk_live_${draw.of(base62, 24)}` }],
    ["example key", { key_id: "AKIAIOSFODNNEXAMPLE" }],
    ["public key", { key: publicKey.toString() }],
    [
      "certificate",
      { cert: `-----BEGIN CERTIFICATE-----\n${draw.of(base64, 64)}\n-----END CERTIFICATE-----` }
    ],
    [
      "what a private key begins with",
      { note: "It starts with -----BEGIN PRIVATE KEY----- and ends alike." }
    ],
    ["SSH public key", { key: `ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI${draw.of(base64, 43)} ada@example` }],
    ["picture", { src: `data:image/png;base64,iVBORw0KGgo${draw.of(base64, 200)}` }],
    [
      "base64 of an ordinary text",
      { body: Buffer.from("Dear customer, your order 4411 is on its way.").toString("base64") }
    ],
    [
      "base64 of JSON",
      { state: Buffer.from(JSON.stringify({ page: 2, sort: "asc", order: "4411" })).toString("base64") }
    ],
    ["URL", { url: "https://example.com/@ada/posts/2026?page=2#top" }],
    ["URL with a port", { url: "http://localhost:8080/@me" }],
    ["URL with a user", { url: "ssh://git@github.com/org/repo.git" }],
    [
      "URL with a placeholder",
      { url: "postgres://user:password@localhost/db", other: "redis://:${REDIS_PASSWORD}@cache/0" }
    ],
    ["mail links", { url: "mailto:ada@example.com?subject=hi" }],
    ["percent-encoded text", { q: "caf%C3%A9%20au%20lait%20%26%20croissant" }],
    ["query", { url: "https://example.com/search?q=password+reset&token_type=bearer&session=monday" }],
    ["bearer in prose", { note: "The bearer of this letter may enter. Bearer token required." }],
    ["basic in prose", { note: "Basic knowledge of arithmetic; basic information about shipping" }],
    [
      "token in prose",
      { note: "Token based authentication; the token expired on 2026-09-17, token: expired" }
    ],
    ["authorization in prose", { note: "Authorization: required for all endpoints" }],
    ["cookie in prose", { note: "Cookie: chocolate chip; cookies: oatmeal and raisin" }],
    ["cookie that is a choice", { note: "Cookie: theme=dark-mode; lang=en-US; consent=accepted-all" }],
    ["password in prose", { note: "password: required, at least 12 characters; the password is wrong" }],
    ["password in a form", { html: '<input name="password" type="password" placeholder="Password">' }],
    ["password in code", { code: "const password = getPassword(user); if (password === null) return" }],
    ["secret in prose", { note: "The secret is patience. Their secret: practice every day." }],
    ["key in prose", { note: "The key is under the mat; key: value, primary key: customer_id" }],
    ["api key in prose", { note: "Set API_KEY=<your key>, or the api key is missing" }],
    ["session in prose", { note: "Session: Thursday afternoon, session=keynote-2026, sid: unknown" }],
    ["pin in prose", { note: "pin: the blue one" }],
    ["auth in prose", { note: "auth: oauth2, auth=none, authentication: multi-factor-with-hardware" }],
    [
      "redacted already",
      { note: "password: [REDACTED], https://user:[REDACTED]@host, Bearer [REDACTED]", token: "[REDACTED]" }
    ],
    ["long word", { note: "Donaudampfschifffahrtsgesellschaftskapitän and antidisestablishmentarianism" }],
    ["screaming constant", { code: "INTERNAL_SERVER_ERROR_RETRY_AFTER_BACKOFF_POLICY_2" }],
    ["snake name under a secret name", { secret: "projects_my_project_secrets_database_versions_latest" }],
    ["ARN under a secret name", { secret: "arn:aws:secretsmanager:eu-west-1:123456789012:secret:prod/db" }],
    ["versions", { version: "v1.0-2026.11.21-rc.4+build.4711", node: "24.21.0" }],
    ["colors and coordinates", { color: "#a1b2c3", at: "52.520008,13.404954" }],
    ["addresses", { mac: "00:1a:2b:3c:4d:5e", ipv6: "2001:db8:85a3::8a2e:370:7334" }],
    [
      "DNA and proteins",
      { sequence: "GATTACAGATTACAGATTACAGATTACA", protein: "MKTAYIAKQRQISFVKSHFSRQLEERLGLIEVQ" }
    ],
    ["chess and music", { pgn: "1. e4 e5 2. Nf3 Nc6 3. Bb5 a6", key: "Bb major" }],
    ["emoji with joiners", { note: "👩‍👩‍👧‍👦 is a family, 👍🏽 is fine" }],
    [
      "text with line breaks",
      { note: "The token\nof our esteem\nis a watch.\r\nThe session\r\nstarts2\r\nmorrow9" }
    ],
    ["Persian with joiners", { note: "می‌خواهم کتاب‌ها را بخوانم" }],
    ["regex", { pattern: "^[A-Za-z0-9_-]{20,40}$", other: "sk-[A-Za-z0-9]{48}" }],
    ["code", { code: "for (const token of tokens) { if (token.type === 'secret') count++ }" }],
    ["SQL", { sql: "SELECT password_hash, session_id FROM users WHERE token = $1" }],
    ["env names", { env: "export AWS_SECRET_ACCESS_KEY=$SECRET; unset API_TOKEN" }],
    ["yaml", { yaml: "auth:\n  type: bearer\n  token: ${TOKEN}\n  secretName: database-credentials" }],
    ["numbers and nothing", { token: 12345678901234, secret: null, session: true, password: "" }],
    ["random identifiers", { id: draw.of(base62, 22), request_id: `req_${hex(32)}`, nonce_count: 4 }],
    ["order numbers", { order: `ORD-${draw.of(digits, 6)}-${draw.of(upper, 3)}`, invoice: "RE-2026-000123" }],
    ["license plate and flight", { plate: "B-MW 4711", flight: "LH400/12NOV" }],
    [
      "names of fields",
      { token: { type: "word", text: "hello" }, session: { starts: "09:00", room: "A-101" } }
    ],
    ["prototype's names", JSON.parse('{"__proto__":{"token":"a"},"constructor":"b"}')],
    ["long prose", { note: "It was the best of times, it was the worst of times. ".repeat(40) }],
    ["table", { csv: "order;token;amount\n4411;blue;12.50\n4412;green;7.00\n" }],
    ["date and time", { session: "Tue, 17 Sep 2026 10:00:00 GMT" }],
    ["version of a token", { token: "v2", session: "2", auth: "basic" }],
    ["German", { note: "Das Passwort ist abgelaufen. Der Schlüssel liegt bei Frau Müller." }],
    ["French", { note: "Le mot de passe est expiré ; la session reprend à 14 h 30." }]
  ]
  return [
    ...values.map(([what, value]) => ({ what, value })),
    ...everyday.map((text) => ({ what: `"${text.slice(0, 60)}"`, value: { note: text } }))
  ]
}
