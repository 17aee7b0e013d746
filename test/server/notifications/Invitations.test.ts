import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber, Layer, Redacted, type Scope } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import type { ClientCalls } from "../../../src/client/Client.ts"
import type { InvitationId } from "../../../src/domain/Ids.ts"
import { transaction } from "../../../src/server/store/transaction.ts"
import { Countersign } from "../../../src/testing/index.ts"
import { databaseAsText } from "../../support/databaseAsText.ts"
import { waitForBlockedStatements } from "../../support/eventually.ts"
import { mailServer, type ReceivedMail } from "../../support/mail.ts"
import { cloneDatabase } from "../../support/postgres.ts"
import { send } from "../../support/service.ts"

type MailServer = Effect.Success<ReturnType<typeof mailServer>>

const PUBLIC_URL = "https://approvals.example.org"

/** Runs a test against a service that sends its mail to a real SMTP server. */
const withMail = <A, E, R>(
  use: (server: MailServer, admin: ClientCalls) => Effect.Effect<A, E, R>,
  environment: Record<string, string> = {},
  options: Parameters<typeof mailServer>[0] = {}
) =>
  Effect.scoped(
    Effect.gen(function* () {
      const server = yield* mailServer(options)
      const service = Countersign.layer({
        databaseUrl: yield* cloneDatabase,
        environment: {
          COUNTERSIGN_SMTP_URL: `smtp://127.0.0.1:${server.port}`,
          COUNTERSIGN_MAIL_FROM: "Countersign <no-reply@countersign.example>",
          COUNTERSIGN_PUBLIC_URL: PUBLIC_URL,
          COUNTERSIGN_MAIL_VERIFIED_ONLY: "true",
          ...environment
        }
      })
      return yield* Effect.gen(function* () {
        return yield* use(server, yield* (yield* Countersign).client({ name: "Grace" }))
      }).pipe(Effect.provide(Layer.fresh(service), { local: true }))
    })
  )

const arrived = (server: MailServer, count: number) => Effect.promise(() => server.arrived(count))

/** The token in the link of an invitation. */
const tokenIn = (mail: ReceivedMail | undefined): string => {
  const [, token] =
    /^https:\/\/approvals\.example\.org\/console\/invitation#(\S+)$/m.exec(mail?.text ?? "") ?? []
  return token ?? assert.fail("the email has no link")
}

/** Accepts an invitation as the console's page does. */
const accept = (token: string) =>
  Effect.gen(function* () {
    const { url } = yield* Countersign
    return yield* send("/console/invitations", {
      method: "POST",
      headers: { origin: url, "sec-fetch-site": "same-origin" },
      body: JSON.stringify({ token })
    })
  })

const ada = {
  name: "Ada Lovelace",
  email: "ada@example.org",
  preset: "reviewer",
  groups: ["finance"]
} as const

const codeOf = <A, E extends { readonly code: string }, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.match(effect, { onFailure: ({ code }) => code, onSuccess: () => "no failure" })

const live = <E>(name: string, effect: () => Effect.Effect<unknown, E, Scope.Scope>) =>
  it.live(name, () => Effect.scoped(Effect.suspend(effect)))

describe("Invitations", () => {
  live(
    "a link by email gives the key once, with a verified address, as if the inviting key had created it",
    () =>
      withMail((server, admin) =>
        Effect.gen(function* () {
          const invitation = yield* admin.invitations.create({ payload: ada })
          assert.deepInclude(invitation, { status: "pending", key_id: null, preset: "reviewer" })
          yield* arrived(server, 1)
          const [mail] = server.received
          assert.deepStrictEqual(mail?.to, ["ada@example.org"])
          assert.strictEqual(mail?.headers.get("subject"), "Invitation to Countersign: test")
          // Neither a key nor a text of a key's holder is sent.
          assert.notMatch(`${mail?.raw}${mail?.text}${mail?.html}`, /csk_|Lovelace|Grace/)
          const token = tokenIn(mail)
          const [, secret = ""] = token.split(".")
          const stored = yield* databaseAsText
          assert.notInclude(stored, secret)
          assert.lengthOf((yield* admin.apiKeys.list({ query: { name: "Ada" } })).keys, 0)

          const answer = yield* accept(token)
          assert.strictEqual(answer.status, 200)
          assert.strictEqual(answer.body["name"], "Ada Lovelace")
          const text = String(answer.body["secret"])
          const hers = yield* (yield* Countersign).clientWith(Redacted.make(text))
          yield* hers.approvals.list({ query: {} })
          const { keys } = yield* admin.apiKeys.list({ query: { name: "Ada" } })
          assert.lengthOf(keys, 1)
          assert.deepInclude(keys[0], {
            preset: "reviewer",
            groups: ["finance"],
            email: "ada@example.org",
            email_awaits_verification: false,
            expires_at: null
          })
          assert.strictEqual(keys[0]?.created_by?.name, "Grace")
          assert.isNotNull(keys[0]?.email_verified_at)
          const { invitations } = yield* admin.invitations.list({ query: {} })
          assert.deepInclude(invitations[0], { status: "accepted", key_id: keys[0]?.id ?? null })

          const again = yield* accept(token)
          assert.deepStrictEqual([again.status, again.body["code"]], [409, "INVITATION_NOT_USABLE"])
          const { entries } = yield* admin.auditLog.list({ query: {} })
          const actions = entries.map(({ action, actor }) => `${actor?.name ?? ""} ${action}`)
          for (const expected of [
            "Grace invitation.created",
            "Grace key.created",
            "Ada Lovelace invitation.accepted"
          ]) {
            assert.include(actions, expected)
          }
          assert.notInclude(JSON.stringify(entries), "ada@example.org")
          // No further link is sent to the address.
          assert.lengthOf(server.received, 1)
        })
      )
  )

  live("of two concurrent acceptances one gets a key", () =>
    withMail((server, admin) =>
      Effect.gen(function* () {
        yield* admin.invitations.create({ payload: ada })
        yield* arrived(server, 1)
        const token = tokenIn(server.received[0])
        const answers = yield* Effect.all([accept(token), accept(token), accept(token)], {
          concurrency: "unbounded"
        })
        assert.deepStrictEqual(answers.map(({ status }) => status).toSorted(), [200, 409, 409])
        assert.lengthOf((yield* admin.apiKeys.list({ query: { name: "Ada" } })).keys, 1)
      })
    )
  )

  live("unknown and malformed links get the same answer, and one network cannot try many", () =>
    withMail((server, admin) =>
      Effect.gen(function* () {
        yield* admin.invitations.create({ payload: ada })
        yield* arrived(server, 1)
        const [org = "", secret = ""] = tokenIn(server.received[0]).split(".")
        for (const wrong of ["x", `${org}.${"A".repeat(43)}`, `org_${"0".repeat(32)}.${secret}`]) {
          const { body, status } = yield* accept(wrong)
          assert.deepStrictEqual([status, body["code"]], [409, "INVITATION_NOT_USABLE"], wrong)
        }
        // Five per second are answered: a machine that takes 15 seconds for these still refuses some.
        const answers = yield* Effect.forEach(Array.from({ length: 80 }), () => accept("x"), {
          concurrency: "unbounded"
        })
        assert.include(
          answers.map(({ status }) => status),
          429
        )
      })
    )
  )

  live("a revoked invitation, and one whose inviter lost the right to give it, cannot be accepted", () =>
    withMail((server, admin) =>
      Effect.gen(function* () {
        const revoked = yield* admin.invitations.create({ payload: ada })
        yield* arrived(server, 1)
        yield* admin.invitations.revoke({ params: { id: revoked.id } })
        yield* admin.invitations.revoke({ params: { id: revoked.id } })
        assert.strictEqual((yield* accept(tokenIn(server.received[0]))).status, 409)

        const inviter = yield* admin.apiKeys.create({ payload: { name: "Joan", preset: "admin" } })
        const joan = yield* (yield* Countersign).clientWith(Redacted.make(inviter.secret))
        yield* joan.invitations.create({ payload: ada })
        yield* arrived(server, 2)
        yield* admin.apiKeys.revoke({ params: { id: inviter.key.id }, query: {} })
        const { body, status } = yield* accept(tokenIn(server.received[1]))
        assert.strictEqual(status, 409)
        assert.include(String(body["detail"]), "cannot give these rights any more")
        assert.lengthOf((yield* admin.apiKeys.list({ query: { name: "Ada" } })).keys, 0)
        const { entries } = yield* admin.auditLog.list({ query: { action: "invitation.revoked" } })
        assert.lengthOf(entries, 1)
      })
    )
  )

  live("a key that may only manage keys does not revoke an invitation to more rights", () =>
    withMail((_, admin) =>
      Effect.gen(function* () {
        const { secret } = yield* admin.apiKeys.create({
          payload: { name: "keys only", scopes: ["keys.write"] }
        })
        const limited = yield* (yield* Countersign).clientWith(Redacted.make(secret))
        const revoke = (id: InvitationId) => codeOf(limited.invitations.revoke({ params: { id } }))
        const invited = yield* admin.invitations.create({ payload: { ...ada, preset: "admin" } })
        assert.strictEqual(yield* revoke(invited.id), "INSUFFICIENT_SCOPE")
        const ofGroup = yield* admin.invitations.create({
          payload: { name: "Joan", email: ada.email, scopes: ["keys.write"], groups: ["finance"] }
        })
        assert.strictEqual(yield* revoke(ofGroup.id), "INSUFFICIENT_SCOPE")
        const pending = yield* admin.invitations.list({ query: { status: "pending" } })
        assert.lengthOf(pending.invitations, 2)
        const own = yield* limited.invitations.create({
          payload: { name: "Edith", email: "edith@example.org", scopes: ["keys.write"] }
        })
        assert.strictEqual(yield* revoke(own.id), "no failure")
      })
    )
  )

  live("an invitation that is revoked while it is accepted gives no key", () =>
    withMail((server, admin) =>
      Effect.gen(function* () {
        const { id } = yield* admin.invitations.create({ payload: ada })
        yield* arrived(server, 1)
        const sql = yield* SqlClient.SqlClient
        const isLocked = yield* Deferred.make<void>()
        const mayUnlock = yield* Deferred.make<void>()
        const lock = yield* Effect.forkChild(
          transaction(
            sql`SELECT 1 FROM invitations WHERE invitation_id = ${id} FOR UPDATE`.pipe(
              Effect.andThen(Deferred.succeed(isLocked, undefined)),
              Effect.andThen(Deferred.await(mayUnlock))
            )
          )
        )
        yield* Deferred.await(isLocked)
        const revoke = yield* Effect.forkChild(admin.invitations.revoke({ params: { id } }))
        yield* waitForBlockedStatements(1)
        const acceptance = yield* Effect.forkChild(accept(tokenIn(server.received[0])))
        yield* waitForBlockedStatements(2)
        yield* Deferred.succeed(mayUnlock, undefined)
        yield* Fiber.join(lock)
        yield* Fiber.join(revoke)
        const { body, status } = yield* Fiber.join(acceptance)
        assert.deepStrictEqual([status, body["code"]], [409, "INVITATION_NOT_USABLE"])
        assert.lengthOf((yield* admin.apiKeys.list({ query: { name: "Ada" } })).keys, 0)
        const { invitations } = yield* admin.invitations.list({ query: {} })
        assert.deepInclude(invitations[0], { status: "revoked", key_id: null })
      })
    )
  )

  live("rights, names and the rate are limited as for keys", () =>
    withMail(
      (_, admin) =>
        Effect.gen(function* () {
          const { secret } = yield* admin.apiKeys.create({
            payload: { name: "keys only", scopes: ["keys.write"] }
          })
          const limited = yield* (yield* Countersign).clientWith(Redacted.make(secret))
          const invite = (client: ClientCalls, change: Partial<typeof ada> | { readonly name: string }) =>
            codeOf(client.invitations.create({ payload: { ...ada, ...change } }))
          assert.strictEqual(yield* invite(limited, {}), "INSUFFICIENT_SCOPE")
          assert.strictEqual(yield* invite(admin, { name: "Grace" }), "NAME_IN_USE")
          assert.strictEqual(yield* invite(admin, {}), "no failure")
          assert.strictEqual(yield* invite(admin, { name: "ada lovelace" }), "NAME_IN_USE")
          assert.strictEqual(yield* invite(admin, { name: "Second" }), "no failure")
          assert.strictEqual(yield* invite(admin, { name: "Third" }), "RATE_LIMITED")
        }),
      { COUNTERSIGN_MAIL_LINKS_PER_HOUR: "2" }
    )
  )

  it.effect("an address is sent three links within an hour, invitations and verifications together", () =>
    withMail((_, admin) =>
      Effect.gen(function* () {
        yield* TestClock.setTime(Date.UTC(2026, 0, 1))
        const invite = (email: string) =>
          admin.invitations.create({ payload: { ...ada, email } }).pipe(
            Effect.tap(({ id }) => admin.invitations.revoke({ params: { id } })),
            codeOf
          )
        yield* TestClock.adjust("1 minute")
        for (const email of ["ada@example.org", "ada@EXAMPLE.org", "ada@example.org"]) {
          assert.strictEqual(yield* invite(email), "no failure")
          yield* TestClock.adjust("1 minute")
        }
        const refused = yield* Effect.flip(admin.invitations.create({ payload: ada }))
        assert.strictEqual(refused.code, "RATE_LIMITED")
        assert.strictEqual("retry_after_seconds" in refused ? refused.retry_after_seconds : 0, 57 * 60)
        assert.strictEqual(yield* invite("bob@example.org"), "no failure")
        // A new key's address is sent a link, for which there is no room either.
        const { key } = yield* admin.apiKeys.create({
          payload: { name: "Ada", preset: "reviewer", email: ada.email }
        })
        const verify = (id: typeof key.id) => codeOf(admin.apiKeys.verifyEmail({ params: { id } }))
        assert.strictEqual(yield* verify(key.id), "RATE_LIMITED")
        yield* TestClock.adjust("57 minutes")
        assert.strictEqual(yield* invite(ada.email), "no failure")
        assert.strictEqual(yield* invite(ada.email), "RATE_LIMITED")

        const grace = yield* admin.apiKeys.create({
          payload: { name: "Grace Hopper", preset: "reviewer", email: "grace@example.org" }
        })
        assert.strictEqual(yield* verify(grace.key.id), "no failure")
        assert.strictEqual(yield* invite("grace@example.org"), "no failure")
        const mixed = yield* Effect.flip(
          admin.invitations.create({ payload: { ...ada, email: "grace@example.org" } })
        )
        // The next link is a third of the hour away: it does not wait for the hour of the invitation.
        assert.strictEqual("retry_after_seconds" in mixed ? mixed.retry_after_seconds : 0, 20 * 60)
        assert.strictEqual(yield* verify(grace.key.id), "RATE_LIMITED")
        yield* TestClock.adjust("20 minutes")
        assert.strictEqual(yield* invite("grace@example.org"), "no failure")
      })
    )
  )

  it.effect("an invitation expires after seven days, and is no longer listed 30 days later", () =>
    withMail((server, admin) =>
      Effect.gen(function* () {
        yield* TestClock.setTime(Date.UTC(2026, 0, 1))
        yield* admin.invitations.create({ payload: ada })
        yield* arrived(server, 1)
        yield* TestClock.adjust("7 days")
        assert.strictEqual((yield* accept(tokenIn(server.received[0]))).status, 409)
        const expired = yield* admin.invitations.list({ query: { status: "expired" } })
        assert.lengthOf(expired.invitations, 1)
        assert.lengthOf((yield* admin.invitations.list({ query: { status: "pending" } })).invitations, 0)
        yield* TestClock.adjust("30 days")
        yield* admin.invitations.create({ payload: { ...ada, name: "Another" } })
        assert.deepStrictEqual(
          (yield* admin.invitations.list({ query: {} })).invitations.map(({ name }) => name),
          ["Another"]
        )
      })
    )
  )

  it.effect("an invitation is deleted 30 days after it ended, whether or not another one follows", () =>
    withMail((server, admin) =>
      Effect.gen(function* () {
        yield* TestClock.setTime(Date.UTC(2026, 0, 1))
        const { advance } = yield* Countersign
        const sql = yield* SqlClient.SqlClient
        const stored = Effect.map(
          sql<{
            readonly name: string
          }>`SELECT input ->> 'name' AS name FROM invitations ORDER BY invitation_id`,
          (rows) => rows.map(({ name }) => name)
        )
        yield* admin.invitations.create({ payload: ada })
        yield* arrived(server, 1)
        const revoked = yield* admin.invitations.create({
          payload: { ...ada, name: "revoked", email: "revoked@example.org" }
        })
        yield* admin.invitations.create({
          payload: { ...ada, name: "expires", email: "expires@example.org" }
        })
        assert.strictEqual((yield* accept(tokenIn(server.received[0]))).status, 200)
        yield* admin.invitations.revoke({ params: { id: revoked.id } })
        yield* advance("29 days")
        assert.deepStrictEqual(yield* stored, ["Ada Lovelace", "revoked", "expires"])
        yield* advance("2 days")
        assert.deepStrictEqual(yield* stored, ["expires"])
        yield* advance("7 days")
        assert.deepStrictEqual(yield* stored, [])
      })
    )
  )

  live("without a mail server nobody is invited, and the list says so", () =>
    Effect.gen(function* () {
      const admin = yield* (yield* Countersign).client()
      assert.strictEqual(yield* codeOf(admin.invitations.create({ payload: ada })), "MAIL_NOT_CONFIGURED")
      assert.isFalse((yield* admin.invitations.list({ query: {} })).mail_configured)
    }).pipe(Effect.provide(Countersign.layer({})))
  )
})
