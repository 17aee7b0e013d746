import { generateKeyPairSync, type KeyObject } from "node:crypto"
import { assert, describe, it } from "@effect/vitest"
import { Duration, Redacted, Result } from "effect"
import { generateApiKeyFrom } from "../../../src/domain/identity/ApiKeyFormat.ts"
import {
  decode,
  type Environment,
  type Settings,
  type SettingsInvalid
} from "../../../src/server/config/Settings.ts"
import { settingsTable, reportSettings } from "../../../src/server/config/Settings/reportSettings.ts"
import { variableNames, variables } from "../../../src/server/config/Settings/variables.ts"

const machine = { cwd: "/srv/app", uid: 1000 }
const masterKey = Buffer.from(Array.from({ length: 32 }, (_, index) => index)).toString("base64")
const otherMasterKey = Buffer.from(Array.from({ length: 32 }, (_, index) => index * 7)).toString("base64")
const apiKey = Redacted.value(
  generateApiKeyFrom((size) => Uint8Array.from({ length: size }, (_, index) => index)).key
)

const accepted = (environment: Environment) => Result.getOrThrow(decode(environment, machine))
const refused = (environment: Environment): SettingsInvalid => {
  const decoded = decode(environment, machine)
  if (Result.isSuccess(decoded)) return assert.fail("the settings were accepted")
  assert.strictEqual(decoded.failure.message.includes("\n"), false)
  return decoded.failure
}

describe("Settings without any variable", () => {
  it("the service uses the embedded PostgreSQL and the documented defaults", () => {
    const { settings, warnings } = accepted({})
    assert.deepStrictEqual(warnings, [])
    assert.strictEqual(settings.port, 8080)
    assert.strictEqual(settings.publicUrl, "http://127.0.0.1:8080")
    assert.strictEqual(settings.egress.ownHost, "127.0.0.1:8080")
    assert.deepStrictEqual(settings.store, {
      kind: "embedded",
      create: true,
      dataDir: "/srv/app/.countersign",
      postgresBin: undefined,
      user: undefined,
      masterKeys: undefined
    })
    assert.deepStrictEqual(
      settings.notifications.delays.map(Duration.toSeconds),
      [0, 5, 30, 120, 600, 1800, 3600, 7200, 14_400, 28_800]
    )
    assert.strictEqual(Duration.toSeconds(settings.stop), 8)
    assert.strictEqual(settings.mail, undefined)
    assert.strictEqual(settings.ownTelemetry, undefined)
  })

  it("as root, the data directory is one that the server's account can reach", () => {
    const { settings } = Result.getOrThrow(decode({}, { cwd: "/root", uid: 0 }))
    assert.strictEqual(settings.store.kind === "embedded" && settings.store.dataDir, "/var/lib/countersign")
  })

  it("an empty variable counts as unset", () => {
    assert.deepStrictEqual(accepted({ PORT: "", DATABASE_URL: "" }).settings.port, 8080)
  })
})

describe("Settings from a valid value", () => {
  const cases: ReadonlyArray<
    readonly [what: string, Environment, (settings: Settings) => unknown, expected: unknown]
  > = [
    ["port 0 lets the system choose", { PORT: "0" }, (s) => s.port, 0],
    [
      "connections are limited, and proxies on other hosts exempt",
      { COUNTERSIGN_CONNECTION_LIMIT: "20", COUNTERSIGN_TRUSTED_PROXIES: "10.0.0.0/8, fd00::/8" },
      (s) => [s.connections.total, s.connections.perAddress, s.connections.trustedProxies.length],
      [20, 1_000, 2]
    ],
    [
      "unread responses have limits of memory, time and rate",
      {
        COUNTERSIGN_UNREAD_RESPONSE_MEBIBYTES: "64",
        COUNTERSIGN_UNREAD_RESPONSE_SECONDS: "10",
        COUNTERSIGN_UNREAD_RESPONSE_KIBIBYTES_PER_SECOND: "4"
      },
      (s) => s.unreadResponses,
      { bytes: 2 ** 26, bytesPerOwner: 2 ** 25, stalledMillis: 10_000, bytesPerSecond: 4_096 }
    ],
    [
      "the limit of unread responses of one organization is by default at most that of all",
      { COUNTERSIGN_UNREAD_RESPONSE_MEBIBYTES: "16" },
      (s) => s.unreadResponses.bytesPerOwner,
      2 ** 24
    ],
    [
      "the longest cooldown is by default at least the first",
      { COUNTERSIGN_NOTIFY_COOLDOWN_SECONDS: "1000" },
      (s) => Duration.toSeconds(s.notifications.maxCooldown),
      1_000
    ],
    [
      "an IPv6 host gets brackets in the public URL",
      { HOST: "::1" },
      (s) => s.publicUrl,
      "http://[::1]:8080"
    ],
    [
      "the public URL loses its trailing slash",
      { COUNTERSIGN_PUBLIC_URL: "https://Approve.Example/" },
      (s) => s.publicUrl,
      "https://approve.example"
    ],
    [
      "the host of the public URL is forbidden to webhook endpoints",
      { COUNTERSIGN_PUBLIC_URL: "https://approve.example" },
      (s) => s.egress.ownHost,
      "approve.example"
    ],
    [
      "master keys are a list, newest first",
      { COUNTERSIGN_MASTER_KEY: `${masterKey}, ${otherMasterKey}` },
      (s) => s.store.masterKeys?.map(Redacted.value),
      [masterKey, otherMasterKey]
    ],
    [
      "DATABASE_URL selects an external database",
      { DATABASE_URL: "postgres://u:p@db/x", COUNTERSIGN_MASTER_KEY: masterKey },
      (s) => s.store.kind === "external" && Redacted.value(s.store.url),
      "postgres://u:p@db/x"
    ],
    [
      "the first admin key is parsed",
      { COUNTERSIGN_ADMIN_KEY: apiKey },
      (s) => s.adminKey !== undefined && Redacted.value(s.adminKey.key),
      apiKey
    ],
    [
      "receivers on loopback can be allowed",
      { COUNTERSIGN_EGRESS_ALLOW: "127.0.0.1:4000,10.0.0.0/8", COUNTERSIGN_EGRESS_HTTP: "true" },
      (s) => [s.egress.allow.map((one) => one.port), s.egress.allowHttp],
      [[4000, undefined], true]
    ],
    [
      "DNS servers have port 53 by default",
      { COUNTERSIGN_DNS_SERVERS: "9.9.9.9, 127.0.0.1:5353" },
      (s) => s.egress.dnsServers.map((one) => one.port),
      [53, 5353]
    ],
    [
      "retry delays may have blanks",
      { COUNTERSIGN_NOTIFY_RETRY_SECONDS: "0, 1" },
      (s) => s.notifications.delays.map(Duration.toSeconds),
      [0, 1]
    ],
    [
      "mail",
      {
        COUNTERSIGN_SMTP_URL: "smtp://mail:25",
        COUNTERSIGN_MAIL_FROM: "Countersign <countersign@example.com>"
      },
      (s) => s.mail?.from,
      "Countersign <countersign@example.com>"
    ],
    [
      "the sample ratio is a fraction",
      { COUNTERSIGN_TELEMETRY_SAMPLE_RATIO: "0.25" },
      (s) => s.telemetry.sampleRatio,
      0.25
    ],
    [
      "rate limit 0 disables the limit",
      { COUNTERSIGN_RATE_LIMIT_PER_SECOND: "0" },
      (s) => s.rateLimits.perKey,
      0
    ]
  ]
  for (const [what, environment, pick, expected] of cases) {
    it(what, () => assert.deepStrictEqual(pick(accepted(environment).settings), expected))
  }
})

describe("Settings from an invalid value: the error names the variable and what it should be", () => {
  const cases: ReadonlyArray<readonly [variable: string, text: string, says: RegExp]> = [
    ["PORT", "abc", /^PORT must be a whole number from 0 to 65535, not "abc"$/],
    ["PORT", "65536", /whole number/],
    ["PORT", "8e3", /whole number/],
    ["PORT", " 80", /whole number/],
    ["PORT", "-1", /whole number/],
    ["HOST", "[::1]", /host name or an address/],
    ["HOST", "a\nb", /not "a\\nb"$/],
    ["COUNTERSIGN_PUBLIC_URL", "approve.example", /http or https URL/],
    ["COUNTERSIGN_PUBLIC_URL", "https://u:p@approve.example", /without user/],
    ["COUNTERSIGN_PUBLIC_URL", "https://approve.example/cs", /without a path/],
    ["DATABASE_URL", "mysql://u:hunter2@db/x", /postgres:\/\/user:password@host/],
    ["DATABASE_URL", "postgres://u:hunter2@a,b/x", /must name one host/],
    [
      "DATABASE_URL",
      "postgres://u:hunter2@a:5432,b:5433/x?target_session_attrs=read-write",
      /must name one host/
    ],
    ["DATABASE_URL", "postgres://u:hunter2%@db/x", /write %25 for a %/],
    ["DATABASE_URL", "postgres://u:hunter2%ff@db/x", /write %25 for a %/],
    ["DATABASE_URL", "postgres:///x?host=a,b&password=hunter2", /must name one host/],
    ["DATABASE_URL", "postgres://u:hunter2@a/x?target_session_attrs=standby", /remove target_session_attrs/],
    ["COUNTERSIGN_DIRECT_DATABASE_URL", "postgres://u:hunter2@a,b/x", /must name one host/],
    ["COUNTERSIGN_MASTER_KEY", "hunter2", /32 random bytes in base64/],
    ["COUNTERSIGN_MASTER_KEY", `${masterKey},${masterKey}`, /Master key 2 of 2 is in the list twice/],
    ["COUNTERSIGN_ADMIN_KEY", "hunter2", /must be an API key: csk_/],
    ["COUNTERSIGN_ADMIN_KEY", apiKey.slice(0, -1) + "~", /must be an API key/],
    ["COUNTERSIGN_SMTP_URL", "https://u:hunter2@mail", /smtps:\/\/user/],
    ["COUNTERSIGN_MAIL_FROM", "nobody", /address such as/],
    ["COUNTERSIGN_METRICS_TOKEN", "hunter2", /bearer token: 16/],
    ["COUNTERSIGN_DNS_SERVERS", "ns.example", /not an address such as 9\.9\.9\.9/],
    ["COUNTERSIGN_EGRESS_ALLOW", "127.0.0.1", /address and port/],
    ["COUNTERSIGN_EGRESS_HTTP", "yes", /true or false/],
    ["COUNTERSIGN_EGRESS_DENY", "10.0.0.0/33", /which is not a network/],
    ["COUNTERSIGN_PROVIDER_ALLOW", "models", /which is neither a network/],
    ["COUNTERSIGN_NOTIFY_RETRY_SECONDS", "0,,5", /separated by commas/],
    ["COUNTERSIGN_NOTIFY_RETRY_SECONDS", Array.from({ length: 51 }, () => "1").join(","), /1 to 50/],
    ["COUNTERSIGN_NOTIFY_QUEUE_LIMIT", "0", /from 1 to/],
    ["COUNTERSIGN_NOTIFY_COOLDOWN_MAX_SECONDS", "10", /at least COUNTERSIGN_NOTIFY_COOLDOWN_SECONDS/],
    ["COUNTERSIGN_TELEMETRY_SAMPLE_RATIO", "1.5", /from 0 to 1/],
    ["COUNTERSIGN_STOP_SECONDS", "forever", /whole number/],
    ["OTEL_EXPORTER_OTLP_ENDPOINT", "hunter2", /http or https URL/],
    ["OTEL_EXPORTER_OTLP_ENDPOINT", "http://ann:hunter2@collector:4318", /set OTEL_EXPORTER_OTLP_HEADERS/],
    ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://hunter2@collector/v1/traces", /without user and password/],
    ["OTEL_EXPORTER_OTLP_HEADERS", "hunter2", /name=value/],
    ["OTEL_SERVICE_NAME", "a\u0000b", /one line/],
    ["OTEL_RESOURCE_ATTRIBUTES", "team=%zz", /percent-encoded/],
    ["OTEL_RESOURCE_ATTRIBUTES", "team", /name=value/],
    ["OTEL_SDK_DISABLED", "yes", /true or false/]
  ]
  for (const [variable, text, says] of cases) {
    it(`${variable}=${JSON.stringify(text.slice(0, 30))}`, () => {
      const failure = refused({ [variable]: text })
      assert.strictEqual(failure.variable, variable)
      assert.isTrue(failure.message.startsWith(`${variable} `))
      assert.match(failure.message, says)
      assert.notInclude(failure.message, "hunter2")
    })
  }

  it("decode() names all invalid variables in one line", () => {
    assert.match(
      refused({ PORT: "x", HOST: "!", COUNTERSIGN_STOP_SECONDS: "y" }).message,
      /^PORT .* \(also invalid: HOST, COUNTERSIGN_STOP_SECONDS\)$/
    )
  })
})

describe("Settings from values that contradict each other", () => {
  it("an external database without a master key is rejected", () => {
    const failure = refused({ DATABASE_URL: "postgres://u:hunter2@db/x" })
    assert.match(failure.message, /^COUNTERSIGN_MASTER_KEY must be set with DATABASE_URL/)
    assert.notInclude(failure.message, "hunter2")
  })

  it("a comma in the password of DATABASE_URL and the default target_session_attrs are accepted", () => {
    for (const url of ["postgres://u:a,b@db/x", "postgres://db/x?target_session_attrs=read-write"]) {
      const { store } = accepted({ DATABASE_URL: url, COUNTERSIGN_MASTER_KEY: masterKey }).settings
      assert.strictEqual(store.kind === "external" && Redacted.value(store.url), url)
    }
  })

  it("a mail server without a sender is rejected", () => {
    assert.strictEqual(refused({ COUNTERSIGN_SMTP_URL: "smtp://mail:25" }).variable, "COUNTERSIGN_MAIL_FROM")
  })

  it("a limit of one organization above that of all is rejected", () => {
    const limits = {
      COUNTERSIGN_UNREAD_RESPONSE_MEBIBYTES: "16",
      COUNTERSIGN_UNREAD_RESPONSE_MEBIBYTES_PER_ORGANIZATION: "16"
    }
    assert.strictEqual(accepted(limits).settings.unreadResponses.bytesPerOwner, 2 ** 24)
    assert.strictEqual(
      refused({ ...limits, COUNTERSIGN_UNREAD_RESPONSE_MEBIBYTES_PER_ORGANIZATION: "17" }).message,
      "COUNTERSIGN_UNREAD_RESPONSE_MEBIBYTES_PER_ORGANIZATION must be at most COUNTERSIGN_UNREAD_RESPONSE_MEBIBYTES, which is 16"
    )
  })

  it("retries beyond the retention of deliveries are rejected", () => {
    const retries = {
      COUNTERSIGN_NOTIFY_RETRY_SECONDS: "0,86400,86400",
      COUNTERSIGN_NOTIFY_RETENTION_DAYS: "2"
    }
    assert.lengthOf(accepted(retries).settings.notifications.delays, 3)
    assert.strictEqual(
      refused({ ...retries, COUNTERSIGN_NOTIFY_RETRY_SECONDS: "1,86400,86400" }).message,
      "COUNTERSIGN_NOTIFY_RETRY_SECONDS must add up to at most 172800, COUNTERSIGN_NOTIFY_RETENTION_DAYS in seconds: deliveries are deleted then"
    )
  })

  it("non-public receivers are rejected in production", () => {
    const production = { NODE_ENV: "production", COUNTERSIGN_POSTGRES_BIN: "/usr/lib/postgresql/18/bin" }
    const allow = refused({ ...production, COUNTERSIGN_EGRESS_ALLOW: "127.0.0.1:4000" })
    assert.match(allow.message, /^COUNTERSIGN_EGRESS_ALLOW must not be set with NODE_ENV=production/)
    const http = refused({ ...production, COUNTERSIGN_EGRESS_HTTP: "true" })
    assert.strictEqual(http.variable, "COUNTERSIGN_EGRESS_HTTP")
    assert.deepStrictEqual(accepted({ ...production, COUNTERSIGN_EGRESS_HTTP: "false" }).warnings, [])
    assert.deepStrictEqual(accepted({ ...production, COUNTERSIGN_PROVIDER_ALLOW: "10.0.0.0/8" }).warnings, [])
  })
})

describe("Settings warnings", () => {
  it("a relaxed egress policy outside production has a warning", () => {
    const { warnings } = accepted({
      COUNTERSIGN_EGRESS_ALLOW: "127.0.0.1:4000",
      COUNTERSIGN_EGRESS_HTTP: "true"
    })
    assert.strictEqual(warnings.length, 2)
    assert.match(warnings[0] ?? "", /^COUNTERSIGN_EGRESS_ALLOW/)
    assert.match(warnings[1] ?? "", /^COUNTERSIGN_EGRESS_HTTP/)
  })

  it("an address that other machines reach has a warning until a proxy with TLS is configured", () => {
    const reachable = { HOST: "0.0.0.0", COUNTERSIGN_PUBLIC_URL: "http://approve.example" }
    const [warning = "", ...others] = accepted(reachable).warnings
    assert.match(warning, /^HOST 0\.0\.0\.0 .*reverse proxy with TLS/)
    assert.deepStrictEqual(others, [])
    for (const settings of [
      { ...reachable, COUNTERSIGN_PUBLIC_URL: "https://approve.example" },
      { ...reachable, COUNTERSIGN_TRUSTED_PROXIES: "10.0.0.2/32" },
      { ...reachable, HOST: "127.0.0.1" },
      { ...reachable, HOST: "::1" }
    ]) {
      assert.deepStrictEqual(accepted(settings).warnings, [])
    }
  })

  it("an unset public URL has a warning if others than this machine follow its links", () => {
    const mail = { COUNTERSIGN_SMTP_URL: "smtp://127.0.0.1", COUNTERSIGN_MAIL_FROM: "c@example.com" }
    for (const [settings, url] of [
      [{ HOST: "0.0.0.0" }, "http://0.0.0.0:8080"],
      [mail, "http://127.0.0.1:8080"]
    ] as const) {
      const [warning = ""] = accepted(settings).warnings
      assert.include(warning, `COUNTERSIGN_PUBLIC_URL is unset: links use ${url};`)
      const COUNTERSIGN_PUBLIC_URL = "https://approve.example"
      assert.deepStrictEqual(accepted({ ...settings, COUNTERSIGN_PUBLIC_URL }).warnings, [])
    }
  })

  it("the packaged PostgreSQL has a warning in production", () => {
    const { warnings } = accepted({ NODE_ENV: "production" })
    assert.lengthOf(warnings, 1)
    assert.match(warnings[0] ?? "", /^The packaged PostgreSQL is for development/)
    assert.include(warnings[0], "COUNTERSIGN_POSTGRES_BIN")
  })

  it("requests are logged in production unless COUNTERSIGN_LOG_REQUESTS says otherwise", () => {
    const requests = (environment: Environment) => accepted(environment).settings.log.requests
    assert.isFalse(requests({}))
    assert.isFalse(requests({ NODE_ENV: "development" }))
    assert.isTrue(requests({ NODE_ENV: "production" }))
    assert.isTrue(requests({ NODE_ENV: "production", COUNTERSIGN_LOG_REQUESTS: "" }))
    assert.isFalse(requests({ NODE_ENV: "production", COUNTERSIGN_LOG_REQUESTS: "false" }))
    assert.isTrue(requests({ COUNTERSIGN_LOG_REQUESTS: "true" }))
  })

  it("settings of the embedded PostgreSQL have a warning if DATABASE_URL disables them", () => {
    const { warnings } = accepted({
      DATABASE_URL: "postgres://u@db/x",
      COUNTERSIGN_MASTER_KEY: masterKey,
      COUNTERSIGN_DATA_DIR: "/data",
      COUNTERSIGN_POSTGRES_BIN: "/usr/lib/postgresql/18/bin"
    })
    assert.deepStrictEqual(warnings, [
      "COUNTERSIGN_DATA_DIR has no effect with DATABASE_URL",
      "COUNTERSIGN_POSTGRES_BIN has no effect with DATABASE_URL"
    ])
  })

  it("mail settings and the direct URL have a warning without what they belong to", () => {
    assert.deepStrictEqual(
      accepted({
        COUNTERSIGN_MAIL_FROM: "c@example.com",
        COUNTERSIGN_MAIL_VERIFIED_ONLY: "true",
        COUNTERSIGN_DIRECT_DATABASE_URL: "postgres://u@db/x"
      }).warnings,
      [
        "COUNTERSIGN_MAIL_FROM has no effect without COUNTERSIGN_SMTP_URL",
        "COUNTERSIGN_MAIL_VERIFIED_ONLY has no effect without COUNTERSIGN_SMTP_URL",
        "COUNTERSIGN_DIRECT_DATABASE_URL has no effect without DATABASE_URL"
      ]
    )
    assert.deepStrictEqual(accepted({ COUNTERSIGN_MAIL_VERIFIED_ONLY: "false" }).warnings, [])
  })

  it("variables of single sign-on have a warning without COUNTERSIGN_OIDC_ISSUER", () => {
    const { warnings } = accepted({
      COUNTERSIGN_OIDC_CLIENT_ID: "countersign",
      COUNTERSIGN_OIDC_CLIENT_SECRET: "secret"
    })
    assert.deepStrictEqual(warnings, [
      "COUNTERSIGN_OIDC_CLIENT_ID has no effect without COUNTERSIGN_OIDC_ISSUER",
      "COUNTERSIGN_OIDC_CLIENT_SECRET has no effect without COUNTERSIGN_OIDC_ISSUER"
    ])
  })

  it("a misspelt variable has a warning with the nearest name", () => {
    const { warnings } = accepted({ COUNTERSIGN_DATADIR: "/x", COUNTERSIGN_COMPLETELY_ELSE: "1" })
    assert.deepStrictEqual(warnings, [
      "Unknown variable COUNTERSIGN_COMPLETELY_ELSE (ignored)",
      "Unknown variable COUNTERSIGN_DATADIR (ignored); did you mean COUNTERSIGN_DATA_DIR?"
    ])
  })

  it("variables without the service's prefix have no warning", () => {
    assert.deepStrictEqual(accepted({ COUNTERSIGN_FOO: "x", COUNTERSIGN_PROT: "1" }).warnings, [
      "Unknown variable COUNTERSIGN_FOO (ignored)",
      "Unknown variable COUNTERSIGN_PROT (ignored)"
    ])
    assert.deepStrictEqual(accepted({ COUNTERSIGN_PORT: "1", COUNTERSIGN_USERS: "x" }).warnings, [
      "Unknown variable COUNTERSIGN_PORT (ignored); did you mean PORT?",
      "Unknown variable COUNTERSIGN_USERS (ignored); did you mean COUNTERSIGN_USER?"
    ])
    assert.deepStrictEqual(accepted({ PATH: "/bin", COUNTERSIGN_TEST_DATABASE_URL: "x" }).warnings, [])
  })
})

describe("reportSettings", () => {
  it("the report lists every variable and shows no secret", () => {
    const rows = reportSettings({
      PORT: "81",
      DATABASE_URL: "postgres://u:hunter2@db/x",
      COUNTERSIGN_METRICS_TOKEN: "hunter2-hunter2-hunter2"
    })
    assert.deepStrictEqual(
      rows.map((row) => row.variable),
      variableNames
    )
    assert.notInclude(JSON.stringify(rows), "hunter2")
    const port = rows.find((row) => row.variable === "PORT")
    assert.deepInclude(port, { set: true, value: "81", default: "8080", unit: "port", fault: null })
    const database = rows.find((row) => row.variable === "DATABASE_URL")
    assert.deepInclude(database, { set: true, value: null, secret: true })
  })

  it("an invalid value is replaced by its fault", () => {
    const [port] = reportSettings({ PORT: "abc" })
    assert.strictEqual(port?.value, null)
    assert.match(port?.fault ?? "", /must be a whole number/)
  })

  it("settingsTable() has one row per variable and four columns in each", () => {
    const lines = settingsTable().split("\n")
    assert.strictEqual(lines.length, Object.keys(variables).length + 2)
    for (const line of lines) assert.strictEqual(line.split("|").length, 6)
  })
})

describe("Settings of single sign-on", () => {
  const complete = {
    COUNTERSIGN_OIDC_ISSUER: "https://id.example.com/realms/acme",
    COUNTERSIGN_OIDC_CLIENT_ID: "countersign",
    COUNTERSIGN_OIDC_CLIENT_SECRET: "hunter2",
    COUNTERSIGN_OIDC_ACCESS: '[{"organization":"acme","group":"approvers","preset":"reviewer"}]'
  }

  it("it is off unless an issuer is set, and then needs a client, its secret and rules", () => {
    assert.isUndefined(accepted({}).settings.singleSignOn)
    const { singleSignOn } = accepted(complete).settings
    assert.deepStrictEqual(singleSignOn?.access, [
      { organization: "acme", group: "approvers", preset: "reviewer" }
    ])
    assert.notInclude(JSON.stringify(singleSignOn), "hunter2")
    for (const name of ["CLIENT_ID", "CLIENT_SECRET", "ACCESS"]) {
      const variable = `COUNTERSIGN_OIDC_${name}`
      const { message, variable: missing } = refused({ ...complete, [variable]: "" })
      assert.strictEqual(missing, variable)
      // The other way to authenticate is named.
      assert.strictEqual(message.includes("COUNTERSIGN_OIDC_CLIENT_KEY"), name === "CLIENT_SECRET")
    }
  })

  it("an issuer without TLS, rules with unknown members, and plain http to the console are refused", () => {
    for (const [variable, value] of [
      ["COUNTERSIGN_OIDC_ISSUER", "http://id.example.com"],
      ["COUNTERSIGN_OIDC_ISSUER", "https://user:password@id.example.com"],
      ["COUNTERSIGN_OIDC_ACCESS", "[]"],
      ["COUNTERSIGN_OIDC_ACCESS", '[{"organization":"acme","preset":"owner"}]'],
      ["COUNTERSIGN_OIDC_ACCESS", '[{"organization":"acme","preset":"admin","gruop":"admins"}]'],
      ["COUNTERSIGN_OIDC_SCOPES", "email"],
      ["COUNTERSIGN_OIDC_EMAIL_DOMAINS", "@example.com"],
      ["COUNTERSIGN_PUBLIC_URL", "http://console.example.com"]
    ] as const) {
      assert.strictEqual(refused({ ...complete, [variable]: value }).variable, variable, value)
    }
  })

  it("a private key replaces the secret, and other keys are refused without being quoted", () => {
    const pemOf = (key: KeyObject) => key.export({ type: "pkcs8", format: "pem" }).toString()
    const { COUNTERSIGN_OIDC_CLIENT_SECRET: _, ...rest } = complete
    for (const [key, algorithm] of [
      [generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey, "RS256"],
      [generateKeyPairSync("ec", { namedCurve: "P-256" }).privateKey, "ES256"],
      [generateKeyPairSync("ed25519").privateKey, "EdDSA"]
    ] as const) {
      for (const text of [pemOf(key), pemOf(key).trim().replaceAll("\n", "\\n")]) {
        const { singleSignOn } = accepted({ ...rest, COUNTERSIGN_OIDC_CLIENT_KEY: text }).settings
        assert.deepInclude(singleSignOn?.client, { _tag: "PrivateKey", algorithm })
        assert.notInclude(JSON.stringify(singleSignOn), pemOf(key).slice(40, 60))
      }
    }
    const variable = "COUNTERSIGN_OIDC_CLIENT_KEY"
    for (const text of [
      "a key of another form",
      pemOf(generateKeyPairSync("rsa", { modulusLength: 1024 }).privateKey),
      pemOf(generateKeyPairSync("ec", { namedCurve: "P-384" }).privateKey),
      pemOf(generateKeyPairSync("x25519").privateKey)
    ]) {
      const fault = refused({ ...rest, [variable]: text })
      assert.strictEqual(fault.variable, variable)
      assert.notInclude(fault.message, text.slice(-20))
    }
    const both = { ...complete, [variable]: pemOf(generateKeyPairSync("ed25519").privateKey) }
    assert.strictEqual(refused(both).variable, variable)
  })

  it("Google needs a domain, because anyone can have an account there", () => {
    const google = { ...complete, COUNTERSIGN_OIDC_ISSUER: "https://accounts.google.com" }
    assert.strictEqual(refused(google).variable, "COUNTERSIGN_OIDC_EMAIL_DOMAINS")
    assert.deepStrictEqual(
      accepted({ ...google, COUNTERSIGN_OIDC_EMAIL_DOMAINS: "Example.com" }).settings.singleSignOn
        ?.emailDomains,
      ["example.com"]
    )
  })
})
