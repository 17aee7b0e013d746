import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Redacted, type Scope } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import type { ClientCalls } from "../../../../src/client/Client.ts"
import { verificationLink, generateLinkToken } from "../../../../src/domain/identity/VerificationLink.ts"
import { StepId } from "../../../../src/domain/Ids.ts"
import { deleteExpired } from "../../../../src/server/deletion/RowRetention.ts"
import { Delivery } from "../../../../src/server/delivery/Delivery.ts"
import { generateMasterKey } from "../../../../src/server/secrets/SecretBox.ts"
import { Countersign } from "../../../../src/testing/index.ts"
import { databaseAsText } from "../../../support/databaseAsText.ts"
import { eventually } from "../../../support/eventually.ts"
import { mailServer, type ReceivedMail } from "../../../support/mail.ts"
import { cloneDatabase } from "../../../support/postgres.ts"
import { send } from "../../../support/service.ts"

type MailServer = Effect.Success<ReturnType<typeof mailServer>>

const PUBLIC_URL = "https://approvals.example.org"

const serviceOn = (
  server: MailServer,
  databaseUrl: Redacted.Redacted,
  environment: Record<string, string> = {}
) =>
  Layer.fresh(
    Countersign.layer({
      databaseUrl,
      environment: {
        COUNTERSIGN_SMTP_URL: `smtp://127.0.0.1:${server.port}`,
        COUNTERSIGN_MAIL_FROM: "Countersign <no-reply@countersign.example>",
        COUNTERSIGN_PUBLIC_URL: PUBLIC_URL,
        COUNTERSIGN_MAIL_VERIFIED_ONLY: "true",
        ...environment
      }
    })
  )

/** Runs a test against a service that requires verified addresses and sends its mail to a real SMTP server. */
const withMail = <A, E, R>(
  use: (server: MailServer, admin: ClientCalls) => Effect.Effect<A, E, R>,
  environment: Record<string, string> = {},
  options: Parameters<typeof mailServer>[0] = {}
) =>
  Effect.scoped(
    Effect.gen(function* () {
      const server = yield* mailServer(options)
      return yield* Effect.gen(function* () {
        return yield* use(server, yield* (yield* Countersign).client())
      }).pipe(Effect.provide(serviceOn(server, yield* cloneDatabase, environment), { local: true }))
    })
  )

const keyWith = (admin: ClientCalls, email: string, name = email) =>
  Effect.map(admin.apiKeys.create({ payload: { name, preset: "reviewer", email } }), ({ key }) => key)

/** The organization's key with this name, as the API shows it now. */
const keyNamed = (admin: ClientCalls, name: string) =>
  Effect.map(
    admin.apiKeys.list({ query: {} }),
    ({ keys }) =>
      keys.find((key) => key.name === name && key.revoked_at === null) ?? assert.fail(`no key ${name}`)
  )

const verifyEmail = (
  admin: ClientCalls,
  { id }: { readonly id: Parameters<ClientCalls["apiKeys"]["verifyEmail"]>[0]["params"]["id"] }
) => admin.apiKeys.verifyEmail({ params: { id } })

/** Requests an approval. */
const ask = (admin: ClientCalls) =>
  Effect.gen(function* () {
    const { session_id } = yield* admin.sessions.create({})
    yield* admin.sessions.step({
      params: { id: session_id },
      payload: { step_id: StepId.make("1"), tool: "payments.refund", action_class: "write" }
    })
  })

const isLink = ({ headers }: ReceivedMail) => headers.get("subject")?.startsWith("Confirm your email address")

/** The path with the token in the link of a verification email. */
const pathIn = (mail: ReceivedMail | undefined): string => {
  const [, path] =
    /^https:\/\/approvals\.example\.org(\/verify-email\?token=\S+)$/m.exec(mail?.text ?? "") ?? []
  return path ?? assert.fail("the email has no link")
}

/** Resolves when this many emails have arrived. */
const arrived = (server: MailServer, count: number) => Effect.promise(() => server.arrived(count))

const page = (path: string, method: string, headers: Record<string, string> = {}) =>
  Effect.map(send(path, { method, headers }), ({ body, headers, status }) => ({
    status,
    headers,
    html: String(body["text"])
  }))

const press = (path: string, headers: Record<string, string> = {}) => page(path, "POST", headers)

/** The result of the organization's email deliveries with a status, newest last. */
const refusals = (count: number) =>
  Effect.flatMap(SqlClient.SqlClient, (sql) =>
    Effect.map(
      eventually(
        sql<{ readonly last_error: string | null }>`
          SELECT last_error
          FROM deliveries
          WHERE label LIKE 'approval.%' AND status = 'failed'
          ORDER BY delivery_id
        `,
        (rows) => rows.length >= count
      ),
      (rows) => rows.map(({ last_error }) => last_error)
    )
  )

const live = <E>(name: string, effect: () => Effect.Effect<unknown, E, Scope.Scope>) =>
  it.live(name, () => Effect.scoped(Effect.suspend(effect)))

describe("Email with required verification", () => {
  live("an address gets nothing but a link, and approval emails once its owner has confirmed it", () =>
    withMail((server, admin) =>
      Effect.gen(function* () {
        // A name that the random token of the link cannot contain.
        const name = "Ada Lovelace"
        const key = yield* keyWith(admin, "ada@example.org", name)
        assert.deepStrictEqual([key.email_verified_at, key.email_awaits_verification], [null, true])
        yield* arrived(server, 1)
        yield* ask(admin)
        yield* ask(admin)
        assert.deepStrictEqual(yield* refusals(2), [
          "the address is not verified",
          "the address is not verified"
        ])
        assert.isFalse((yield* admin.notificationEndpoints.list()).email_notifier)
        assert.lengthOf(server.received, 1)
        const [link] = server.received
        assert.deepStrictEqual(link?.to, ["ada@example.org"])
        assert.strictEqual(link?.headers.get("subject"), "Confirm your email address: test")
        assert.include(link?.html ?? "", `href="${PUBLIC_URL}${pathIn(link)}"`)
        // Nothing that a holder of a key chose is sent to an unconfirmed address.
        assert.notInclude(`${link?.raw}${link?.text}${link?.html}`, "Lovelace")

        // Scanners open links, several times.
        for (const method of ["GET", "HEAD", "GET"])
          assert.strictEqual((yield* page(pathIn(link), method)).status, 200)
        assert.isNull((yield* keyNamed(admin, name)).email_verified_at)
        const answer = yield* press(pathIn(link))
        assert.strictEqual(answer.status, 200)
        assert.include(answer.html, "Your email address is confirmed")
        const verified = yield* keyNamed(admin, name)
        assert.isNotNull(verified.email_verified_at)
        assert.isFalse(verified.email_awaits_verification)
        assert.isTrue((yield* admin.notificationEndpoints.list()).email_notifier)
        yield* ask(admin)
        yield* arrived(server, 2)
        assert.strictEqual(server.received[1]?.headers.get("subject"), "Approval requested: test")

        const { entries } = yield* admin.auditLog.list({ query: { target_id: key.id } })
        assert.deepStrictEqual(
          entries.map(({ action, actor, detail }) => [action, actor?.name, Object.keys(detail)]).slice(0, 1),
          [["key.email_verified", undefined, []]]
        )
      })
    )
  )

  live(
    "a link is used once, and unknown, used and malformed links are refused alike, on a page that cannot be framed",
    () =>
      withMail((server, admin) =>
        Effect.gen(function* () {
          yield* keyWith(admin, "ada@example.org")
          yield* arrived(server, 1)
          const path = pathIn(server.received[0])
          const unknown = verificationLink("", yield* generateLinkToken)
          // Of concurrent uses one succeeds.
          const used = yield* Effect.all([press(path), press(path), press(path)], { concurrency: 3 })
          assert.deepStrictEqual(used.map(({ status }) => status).toSorted(), [200, 404, 404])
          const refused = [
            yield* press(path),
            yield* press(unknown),
            yield* press("/verify-email", { "x-forwarded-for": "198.51.100.1" }),
            yield* press(`${unknown}x`),
            yield* press(`/verify-email?token=${encodeURIComponent(`"><script>alert(1)</script>`)}`),
            yield* page(`/verify-email?token=${"A".repeat(10_000)}`, "GET"),
            yield* page(path.replace("token=", "other="), "GET")
          ]
          for (const { headers, html, status } of refused) {
            assert.strictEqual(status, 404)
            assert.strictEqual(html, refused[0]?.html)
            assert.notInclude(html, "script")
            assert.notMatch(html, /ada|example\.org|test/)
            const policy = headers.get("content-security-policy") ?? ""
            assert.include(policy, "default-src 'none'")
            assert.include(policy, "frame-ancestors 'none'")
            assert.strictEqual(headers.get("x-frame-options"), "DENY")
            assert.strictEqual(headers.get("referrer-policy"), "no-referrer")
            assert.strictEqual(headers.get("cache-control"), "no-store")
          }
          assert.strictEqual((yield* send("/verify-email/", { method: "POST" })).status, 404)
          assert.strictEqual((yield* send("/verify-email", { method: "DELETE" })).status, 405)
        })
      )
  )

  live("confirmations from one address have a rate limit", () =>
    withMail(() =>
      Effect.gen(function* () {
        const unknown = verificationLink("", yield* generateLinkToken)
        const answers = yield* Effect.replicateEffect(press(unknown), 30, { concurrency: 30 })
        const limited = answers.filter(({ status }) => status === 429)
        assert.isAbove(limited.length, 0)
        for (const { headers } of limited) assert.match(headers.get("retry-after") ?? "", /^\d+$/)
      })
    )
  )

  live("the token of a link is neither stored nor shown by the API", () =>
    withMail((server, admin) =>
      Effect.gen(function* () {
        yield* keyWith(admin, "ada@example.org")
        yield* arrived(server, 1)
        const token = pathIn(server.received[0]).split("=")[1] ?? assert.fail("a token")
        const stored = yield* databaseAsText
        assert.include(stored, "ada@example.org")
        for (const form of [
          token,
          Buffer.from(token).toString("hex"),
          Buffer.from(token, "base64url").toString("hex")
        ])
          assert.notInclude(stored, form)
        assert.notInclude(JSON.stringify(yield* admin.apiKeys.list({ query: {} })), token)
        assert.notInclude(JSON.stringify(yield* admin.auditLog.list({ query: {} })), token)
      })
    )
  )

  it.effect("a link expires after 48 hours, and the next event sends another", () =>
    withMail((server, admin) =>
      Effect.gen(function* () {
        yield* TestClock.setTime(Date.UTC(2026, 0, 1))
        const key = yield* keyWith(admin, "ada@example.org", "Ada")
        yield* arrived(server, 1)
        yield* TestClock.adjust("47 hours")
        yield* ask(admin)
        yield* TestClock.adjust("1 hour")
        assert.strictEqual((yield* press(pathIn(server.received[0]))).status, 404)
        assert.isTrue((yield* keyNamed(admin, "Ada")).email_awaits_verification)
        // Each event would send one; there is one link for both.
        yield* ask(admin)
        yield* ask(admin)
        yield* arrived(server, 2)
        assert.isTrue(isLink(server.received[1] ?? assert.fail("a link")))
        assert.strictEqual((yield* press(pathIn(server.received[1]))).status, 200)
        assert.strictEqual(
          (yield* keyNamed(admin, "Ada")).email_verified_at?.epochMilliseconds,
          Date.UTC(2026, 0, 3)
        )
        // An address that is confirmed is asked no more.
        yield* verifyEmail(admin, key)
        yield* ask(admin)
        yield* arrived(server, 3)
        assert.lengthOf(server.received.filter(isLink), 2)
      }).pipe(Effect.scoped)
    )
  )

  live(
    "a link can be requested again, three times an hour for an address, and each of them can be used",
    () =>
      withMail((server, admin) =>
        Effect.gen(function* () {
          const key = yield* keyWith(admin, "ada@example.org", "Ada")
          yield* arrived(server, 1)
          // A second key with the address while its link can be used is no reason for another.
          yield* keyWith(admin, "ada@EXAMPLE.org", "Ada's other key")
          for (const count of [2, 3]) {
            assert.isNull((yield* verifyEmail(admin, key)).email_verified_at)
            yield* arrived(server, count)
          }
          const refused = yield* Effect.flip(verifyEmail(admin, key))
          assert.strictEqual(refused.code, "RATE_LIMITED")
          assert.isAbove("retry_after_seconds" in refused ? refused.retry_after_seconds : 0, 1_000)
          // Revoking the key and adding the address again does not evade the limit.
          yield* admin.apiKeys.revoke({ params: { id: key.id }, query: {} })
          const again = yield* keyWith(admin, "ada@example.org", "Ada")
          assert.strictEqual((yield* Effect.flip(verifyEmail(admin, again))).code, "RATE_LIMITED")
          const paths = server.received.map(pathIn)
          assert.strictEqual(new Set(paths).size, 3)
          assert.strictEqual((yield* press(paths[0] ?? "")).status, 200)
          // The confirmation counts for every key with the address; the other links have ended with it.
          for (const name of ["Ada", "Ada's other key"])
            assert.isFalse((yield* keyNamed(admin, name)).email_awaits_verification)
          for (const path of paths) assert.strictEqual((yield* press(path)).status, 404)
          const { entries } = yield* admin.auditLog.list({
            query: { action: "key.verification_email_requested" }
          })
          assert.deepStrictEqual(
            entries.map(({ target_id }) => target_id),
            [key.id, key.id]
          )
        })
      )
  )

  live(
    "the addresses of one organization that are sent a link within an hour have a limit, others' have not",
    () =>
      withMail(
        (server, admin) =>
          Effect.gen(function* () {
            const other = yield* (yield* Countersign).client({}, "another organization")
            for (const name of ["a", "b", "c"]) yield* keyWith(admin, `${name}@example.org`)
            yield* ask(admin)
            const third = yield* keyNamed(admin, "c@example.org")
            const refused = yield* Effect.flip(verifyEmail(admin, third))
            assert.strictEqual(refused.code, "RATE_LIMITED")
            yield* keyWith(other, "c@example.org")
            yield* arrived(server, 3)
            yield* refusals(3)
            assert.deepStrictEqual(server.received.flatMap(({ to }) => to).toSorted(), [
              "a@example.org",
              "b@example.org",
              "c@example.org"
            ])
            // Messages are sent concurrently, so the last one that was asked for need not be the last to arrive.
            assert.deepStrictEqual(
              server.received
                .filter(({ to }) => to.includes("c@example.org"))
                .map(({ headers }) => headers.get("subject")),
              ["Confirm your email address: another organization"]
            )
          }),
        { COUNTERSIGN_MAIL_LINKS_PER_HOUR: "2" }
      )
  )

  live("a confirmation counts for one organization and one mailbox, whatever the case of its domain", () =>
    withMail((server, admin) =>
      Effect.gen(function* () {
        const countersign = yield* Countersign
        const other = yield* countersign.client({}, "another organization")
        yield* keyWith(other, "ada@example.org", "Ada elsewhere")
        yield* arrived(server, 1)
        yield* keyWith(admin, "ada@example.org", "Ada")
        yield* arrived(server, 2)
        yield* press(pathIn(server.received[1]))
        yield* keyWith(admin, "ada@EXAMPLE.Org", "same")
        yield* keyWith(admin, "Ada@example.org", "other mailbox")
        const awaits = (client: ClientCalls, name: string) =>
          Effect.map(keyNamed(client, name), (key) => key.email_awaits_verification)
        assert.isFalse(yield* awaits(admin, "Ada"))
        assert.isFalse(yield* awaits(admin, "same"))
        assert.isTrue(yield* awaits(admin, "other mailbox"))
        assert.isTrue(yield* awaits(other, "Ada elsewhere"))
        // Removed and added again, the address stays confirmed.
        for (const name of ["Ada", "same"])
          yield* admin.apiKeys.revoke({ params: { id: (yield* keyNamed(admin, name)).id }, query: {} })
        assert.isFalse((yield* keyWith(admin, "ada@example.org", "Ada again")).email_awaits_verification)
      })
    )
  )

  live("the confirmation of an address ends when the organization's last key with it is removed", () =>
    withMail((server, admin) =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const addresses = Effect.map(
          sql<{ readonly address: string }>`SELECT address FROM email_addresses ORDER BY address`,
          (rows) => rows.map(({ address }) => address)
        )
        const ada = yield* keyWith(admin, "ada@example.org", "Ada")
        const second = yield* keyWith(admin, "ada@Example.org", "Ada's second key")
        yield* keyWith(admin, "grace@example.org")
        yield* arrived(server, 2)
        const remove = Effect.fnUntraced(function* (id: typeof ada.id) {
          yield* admin.apiKeys.revoke({ params: { id }, query: {} })
          yield* sql`UPDATE api_keys SET revoked_at = now() - interval '91 days' WHERE key_id = ${id}`
          yield* deleteExpired("key_retention", "90 days")
        })
        yield* remove(ada.id)
        assert.deepStrictEqual(yield* addresses, ["ada@example.org", "grace@example.org"])
        yield* remove(second.id)
        assert.deepStrictEqual(yield* addresses, ["grace@example.org"])
        const links = yield* sql<{ readonly address: string }>`SELECT address FROM email_verification_links`
        assert.deepStrictEqual(links, [{ address: "grace@example.org" }])
      })
    )
  )

  live(
    "an address that existed before the setting was turned on is pending, and its next event sends one link",
    () =>
      Effect.gen(function* () {
        const server = yield* mailServer()
        const databaseUrl = yield* cloneDatabase
        const environment = { COUNTERSIGN_MASTER_KEY: Redacted.value(yield* generateMasterKey) }
        yield* Effect.gen(function* () {
          const admin = yield* (yield* Countersign).client({ name: "first" })
          const key = yield* keyWith(admin, "ada@example.org", "Ada")
          assert.isFalse(key.email_awaits_verification)
          yield* ask(admin)
          yield* arrived(server, 1)
          assert.lengthOf(server.received.filter(isLink), 0)
        }).pipe(
          Effect.provide(
            serviceOn(server, databaseUrl, { ...environment, COUNTERSIGN_MAIL_VERIFIED_ONLY: "false" }),
            {
              local: true
            }
          )
        )
        yield* Effect.gen(function* () {
          const admin = yield* (yield* Countersign).client({ name: "second" })
          assert.isTrue((yield* keyNamed(admin, "Ada")).email_awaits_verification)
          yield* ask(admin)
          yield* ask(admin)
          yield* arrived(server, 2)
          yield* refusals(2)
          assert.lengthOf(server.received, 2)
          yield* press(pathIn(server.received[1]))
          yield* ask(admin)
          yield* arrived(server, 3)
          assert.strictEqual(server.received[2]?.headers.get("subject"), "Approval requested: test")
        }).pipe(Effect.provide(serviceOn(server, databaseUrl, environment), { local: true }))
      })
  )

  live("a link that one replica sent is confirmed on another, once", () =>
    Effect.gen(function* () {
      const server = yield* mailServer()
      const databaseUrl = yield* cloneDatabase
      const environment = { COUNTERSIGN_MASTER_KEY: Redacted.value(yield* generateMasterKey) }
      const replica = Effect.map(
        Layer.build(serviceOn(server, databaseUrl, environment)),
        (context) =>
          <A, E>(use: Effect.Effect<A, E, Countersign | SqlClient.SqlClient>) =>
            Effect.provideContext(use, context)
      )
      const first = yield* replica
      const second = yield* replica
      const admin = yield* first(Effect.flatMap(Countersign, ({ client }) => client()))
      yield* keyWith(admin, "ada@example.org", "Ada")
      // Both replicas create approvals: neither sends a second link.
      const elsewhere = yield* second(Effect.flatMap(Countersign, ({ client }) => client({ name: "second" })))
      yield* Effect.all([ask(admin), ask(elsewhere), ask(admin), ask(elsewhere)], { concurrency: 4 })
      yield* first(refusals(4))
      yield* arrived(server, 1)
      assert.lengthOf(server.received, 1)
      const path = pathIn(server.received[0])
      const answers = yield* Effect.all([first(press(path)), second(press(path)), first(press(path))], {
        concurrency: 3
      })
      assert.deepStrictEqual(answers.map(({ status }) => status).toSorted(), [200, 404, 404])
      // What one replica confirmed counts on the other at once.
      yield* ask(elsewhere)
      yield* arrived(server, 2)
      assert.isFalse((yield* keyNamed(elsewhere, "Ada")).email_awaits_verification)
    })
  )

  live(
    "the links of a repeated attempt can both be used, and an email that is no longer needed is not sent",
    () =>
      withMail((server, admin) =>
        Effect.gen(function* () {
          const sql = yield* SqlClient.SqlClient
          yield* keyWith(admin, "ada@example.org", "Ada")
          yield* arrived(server, 1)
          const record = eventually(
            sql<{ readonly org_id: never; readonly destination_id: string; readonly delivery_id: string }>`
            SELECT org_id, destination_id, delivery_id FROM deliveries WHERE status = 'delivered'
          `,
            (rows) => rows.length === 1
          )
          const [sent] = yield* record
          // The state after a crash between sending the email and recording the result.
          yield* sql`UPDATE deliveries SET status = 'failed'`
          const { org_id, destination_id, delivery_id } = sent ?? assert.fail("a delivery")
          const delivery = yield* Delivery
          yield* delivery.replay(org_id, destination_id, delivery_id)
          yield* arrived(server, 2)
          const [one, two] = server.received
          assert.strictEqual(one?.headers.get("message-id"), two?.headers.get("message-id"))
          assert.notStrictEqual(pathIn(one), pathIn(two))
          assert.strictEqual((yield* press(pathIn(one))).status, 200)
          yield* record
          yield* sql`UPDATE deliveries SET status = 'failed'`
          yield* delivery.replay(org_id, destination_id, delivery_id)
          yield* eventually(
            sql<{ readonly last_error: string | null }>`SELECT last_error FROM deliveries`,
            ([row]) => row?.last_error === "the address is already verified"
          )
          assert.lengthOf(server.received, 2)
        })
      )
  )

  live("an address cannot inject headers, and the name of an organization neither", () =>
    withMail((server) =>
      Effect.gen(function* () {
        const admin = yield* (yield* Countersign).client({}, "acme\r\nBcc: mallory@example.net <b>")
        for (const email of [
          "ada@example.org\r\nBcc: mallory@example.net",
          "ada@example.org, mallory@example.net",
          "<ada@example.org>",
          "ada@example.org\u0000"
        ])
          assert.strictEqual((yield* Effect.flip(keyWith(admin, email, "hostile"))).code, "INVALID_REQUEST")
        yield* keyWith(admin, "ada@example.org")
        yield* arrived(server, 1)
        const [mail] = server.received
        assert.deepStrictEqual(mail?.to, ["ada@example.org"])
        assert.deepStrictEqual(mail?.headerNames, [
          "auto-submitted",
          "x-auto-response-suppress",
          "from",
          "to",
          "subject",
          "message-id",
          "date",
          "mime-version",
          "content-type"
        ])
        assert.notInclude(mail?.html ?? "", "<b>")
      })
    )
  )
})

describe("Email without required verification", () => {
  live("approval emails are sent at once, and an address can be verified on request", () =>
    withMail(
      (server, admin) =>
        Effect.gen(function* () {
          const key = yield* keyWith(admin, "ada@example.org", "Ada")
          assert.isFalse(key.email_awaits_verification)
          yield* ask(admin)
          yield* arrived(server, 1)
          assert.strictEqual(server.received[0]?.headers.get("subject"), "Approval requested: test")
          yield* verifyEmail(admin, key)
          yield* arrived(server, 2)
          yield* press(pathIn(server.received[1]))
          assert.isNotNull((yield* keyNamed(admin, "Ada")).email_verified_at)
        }),
      { COUNTERSIGN_MAIL_VERIFIED_ONLY: "false" }
    )
  )

  live("a key without an address, and a revoked one, cannot be verified, nor another organization's", () =>
    withMail((server, admin) =>
      Effect.gen(function* () {
        const { key: bare } = yield* admin.apiKeys.create({ payload: { name: "bare", preset: "reviewer" } })
        assert.strictEqual((yield* Effect.flip(verifyEmail(admin, bare))).code, "EMAIL_NOT_VERIFIABLE")
        const key = yield* keyWith(admin, "ada@example.org")
        const other = yield* (yield* Countersign).client({}, "another organization")
        assert.strictEqual((yield* Effect.flip(verifyEmail(other, key))).code, "NOT_FOUND")
        yield* admin.apiKeys.revoke({ params: { id: key.id }, query: {} })
        assert.strictEqual((yield* Effect.flip(verifyEmail(admin, key))).code, "EMAIL_NOT_VERIFIABLE")
        assert.isAtMost(server.received.length, 1)
      })
    )
  )

  live("without a mail server no link is sent", () =>
    Effect.gen(function* () {
      const databaseUrl = yield* cloneDatabase
      yield* Effect.gen(function* () {
        const admin = yield* (yield* Countersign).client()
        const key = yield* keyWith(admin, "ada@example.org")
        const refused = yield* Effect.flip(verifyEmail(admin, key))
        assert.strictEqual(refused.code, "EMAIL_NOT_VERIFIABLE")
      }).pipe(Effect.provide(Countersign.layer({ databaseUrl }), { local: true }))
    })
  )
})
