import type { PgClient } from "@effect/sql-pg"
import { assert, describe, it } from "@effect/vitest"
import { Array as Arr, DateTime, Effect, Layer, Logger, Redacted, type Scope } from "effect"
import { SqlClient } from "effect/sql"
import type { Approval } from "../../../../src/domain/approvals/Approval.ts"
import type { ApprovalEventType } from "../../../../src/domain/approvals/ApprovalEvent.ts"
import { ApprovalId, KeyId, OrgId, SessionId, StepId } from "../../../../src/domain/Ids.ts"
import { transaction } from "../../../../src/server/store/transaction.ts"
import { type ChannelPolicy, Delivery } from "../../../../src/server/delivery/Delivery.ts"
import { Email } from "../../../../src/server/notifications/Email.ts"
import { MailTransport } from "../../../../src/server/notifications/MailTransport.ts"
import * as MailChannel from "../../../../src/server/notifications/Email/MailChannel.ts"
import { StoreClock } from "../../../../src/server/store/StoreClock.ts"
import { mailServer } from "../../../support/mail.ts"
import { TestDatabase } from "../../../support/postgres.ts"
import { quickPolicy } from "../../../support/delivery.ts"
import { eventually } from "../../../support/eventually.ts"
import { pendingApproval } from "../../../support/approvals.ts"
import { layerNoLimits } from "../../../support/layerNoLimits.ts"

const publicUrl = "https://approvals.example.org"

/** Runs with the mail channel on a delivery engine of its own. */
const withMail =
  (port: number, policy: ChannelPolicy = quickPolicy(), mailsPerHour = 0) =>
  <A, E, R>(use: Effect.Effect<A, E, R>) => {
    const mail = { url: Redacted.make(`smtp://127.0.0.1:${port}`), from: "c@example.org" }
    return Effect.provide(
      use,
      Email.layer.pipe(
        Layer.provideMerge(
          Delivery.layer(Effect.all([MailChannel.make({ publicUrl, policy, mailsPerHour })]))
        ),
        Layer.provide([StoreClock.layer, MailTransport.layer(mail), layerNoLimits])
      ),
      { local: true }
    )
  }

/** Inserts an organization with one reviewer and a pending approval. */
const seedPendingApproval = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const org_id = yield* OrgId.generate
  const key_id = yield* KeyId.generate
  const now = yield* DateTime.now
  yield* sql`INSERT INTO organizations VALUES (${org_id}, ${org_id}, now())`
  yield* sql`
    INSERT INTO api_keys (org_id, key_id, public_id, digest, name, scopes, email, created_at)
    VALUES (
      ${org_id}, ${key_id}, ${key_id}, '\\x00', 'Ada', ARRAY['approvals.decide'], 'ada@example.org', now()
    )
  `
  const approval: Approval = {
    ...pendingApproval,
    approval_id: yield* ApprovalId.generate,
    session_id: yield* SessionId.generate,
    step_id: StepId.make("refund-1"),
    requested_at: now,
    review_deadline_at: now,
    expires_at: now
  }
  const at = DateTime.toDateUtc(now)
  const row = {
    org_id,
    approval_id: approval.approval_id,
    session_id: approval.session_id,
    step_id: approval.step_id,
    tool: approval.tool,
    action_class: approval.action_class,
    rule_summary: null,
    agent_summary: null,
    arguments_digest: "",
    status: "pending",
    stage: "reviewer",
    requested_at: at,
    requested_by_id: key_id,
    review_deadline_at: at,
    expires_at: at,
    timeout_action: "reject"
  }
  yield* sql`INSERT INTO approvals ${sql.insert(row)}`
  return { org_id, key_id, approval }
})

type PendingApproval = Effect.Success<typeof seedPendingApproval>

const publish = ({ approval, org_id }: PendingApproval, event: ApprovalEventType = "approval.requested") =>
  Effect.gen(function* () {
    const email = yield* Email
    yield* transaction(email.publish(org_id, Arr.of({ event, approval }), yield* DateTime.now))
  })

/** The only delivery of the organization, once it has this status. */
const awaitRecord = ({ org_id }: PendingApproval, status: string) =>
  Effect.flatMap(SqlClient.SqlClient, (sql) =>
    Effect.map(
      eventually(
        sql<{ readonly status: string; readonly attempts: number; readonly last_error: string | null }>`
          SELECT status, attempts, last_error
          FROM deliveries
          WHERE org_id = ${org_id}
        `,
        ([row]) => row?.status === status
      ),
      ([row]) => row ?? assert.fail("a delivery")
    )
  )

const test = <E>(
  name: string,
  effect: () => Effect.Effect<void, E, SqlClient.SqlClient | PgClient.PgClient | TestDatabase | Scope.Scope>
) => it.live(name, () => Effect.suspend(effect).pipe(Effect.provide(Layer.fresh(TestDatabase.layerSql))))

describe("MailChannel", () => {
  test("a greylisted email is retried with the same message id", () =>
    Effect.gen(function* () {
      const lines: Array<unknown> = []
      const capture = Logger.make(({ message }) => void lines.push(message))
      const server = yield* mailServer({ message: (nth) => (nth < 3 ? 451 : undefined) })
      yield* Effect.gen(function* () {
        const waiting = yield* seedPendingApproval
        yield* publish(waiting)
        assert.deepStrictEqual(yield* awaitRecord(waiting, "delivered"), {
          status: "delivered",
          attempts: 3,
          last_error: null
        })
        const sql = yield* SqlClient.SqlClient
        const [mail] = yield* sql<{ readonly event_id: string }>`SELECT event_id FROM approval_mail`
        assert.strictEqual(
          server.received[0]?.headers.get("message-id"),
          `<${mail?.event_id}@approvals.example.org>`
        )
        assert.lengthOf(server.received, 1)
      }).pipe(withMail(server.port), Effect.provide(Logger.layer([capture])))
      assert.deepStrictEqual(lines, [], "the server does not fail")
    }))

  test("emails beyond the limit of an address fail, and other organizations' to it do not", () =>
    Effect.gen(function* () {
      // The mail server puts the first attempt off: an email that was not accepted does not count.
      const server = yield* mailServer({ message: (nth) => (nth < 2 ? 451 : undefined) })
      yield* Effect.gen(function* () {
        const waiting = yield* seedPendingApproval
        const sql = yield* SqlClient.SqlClient
        const statuses = (count: number) =>
          eventually(
            sql<{ readonly status: string; readonly last_error: string | null }>`
              SELECT status, last_error
              FROM deliveries
              WHERE org_id = ${waiting.org_id}
              ORDER BY delivery_id
            `,
            (rows) => rows.length === count && rows.every(({ status }) => status !== "pending")
          )
        const accepted = { status: "delivered", last_error: null }
        for (let sent = 1; sent <= 2; sent++) {
          yield* publish(waiting)
          assert.deepStrictEqual(
            yield* statuses(sent),
            Array.from({ length: sent }, () => accepted)
          )
        }
        yield* publish(waiting)
        assert.deepStrictEqual(yield* statuses(3), [
          accepted,
          accepted,
          { status: "failed", last_error: "more than 2 emails to this address within an hour" }
        ])
        const other = yield* seedPendingApproval
        yield* publish(other)
        yield* awaitRecord(other, "delivered")
        assert.lengthOf(server.received, 3)
      }).pipe(withMail(server.port, quickPolicy(), 2))
    }))

  test("an email whose result was lost is sent again with the same message id", () =>
    Effect.gen(function* () {
      let last = ""
      const server = yield* mailServer()
      yield* Effect.gen(function* () {
        const waiting = yield* seedPendingApproval
        const sql = yield* SqlClient.SqlClient
        yield* publish(waiting)
        yield* awaitRecord(waiting, "delivered")
        last = server.received[0]?.headers.get("message-id") ?? ""
        // The state after a crash between sending the mail and recording the result.
        yield* sql`UPDATE deliveries SET status = 'failed'`
        const [row] = yield* sql<{ readonly destination_id: string; readonly delivery_id: string }>`
          SELECT destination_id, delivery_id FROM deliveries
        `
        const delivery = yield* Delivery
        yield* delivery.replay(waiting.org_id, row?.destination_id ?? "", row?.delivery_id ?? "")
        yield* Effect.promise(() => server.arrived(2))
      }).pipe(withMail(server.port))
      assert.strictEqual(server.received[1]?.headers.get("message-id"), last)
    }))

  test("an unknown recipient fails its own delivery immediately and does not affect other email", () =>
    Effect.gen(function* () {
      const server = yield* mailServer({ recipient: (_, nth) => (nth <= 10 ? 550 : undefined) })
      const policy = quickPolicy({
        cooldown: { failureThreshold: 2, firstMillis: 60_000, longestMillis: 60_000 }
      })
      yield* Effect.gen(function* () {
        const waiting = yield* seedPendingApproval
        for (let i = 0; i < 10; i++) yield* publish(waiting)
        const sql = yield* SqlClient.SqlClient
        const rows = yield* eventually(
          sql<{
            readonly status: string
            readonly attempts: number
          }>`SELECT status, attempts FROM deliveries`,
          (list) => list.every(({ status }) => status === "failed")
        )
        assert.deepStrictEqual(
          rows,
          Arr.makeBy(10, () => ({ status: "failed", attempts: 1 }))
        )
        yield* publish(waiting)
        yield* Effect.promise(() => server.arrived(1))
      }).pipe(withMail(server.port, policy))
    }))

  test("a failing server gets a cooldown and one log line, and queued email is sent when it works again", () =>
    Effect.gen(function* () {
      const lines: Array<unknown> = []
      const capture = Logger.make(({ message }) => void lines.push(message))
      const server = yield* mailServer({ connect: (nth) => (nth <= 3 ? 421 : undefined) })
      const retry = { ...quickPolicy().retry, delaysMillis: Arr.makeBy(20, () => 0) }
      const policy = quickPolicy({
        concurrency: 1,
        retry,
        cooldown: { failureThreshold: 2, firstMillis: 200, longestMillis: 200 }
      })
      yield* Effect.gen(function* () {
        const waiting = yield* seedPendingApproval
        yield* publish(waiting)
        const { attempts } = yield* awaitRecord(waiting, "delivered")
        assert.strictEqual(attempts, 4)
      }).pipe(withMail(server.port, policy), Effect.provide(Logger.layer([capture])))
      assert.deepStrictEqual(lines.flat(), [
        "Email to reviewers is delayed: SMTP 421: the mail server does not accept mail",
        "The mail server accepts mail again"
      ])
    }))

  test("an email that is refused by the limit of its address is no sign that a failing server works again", () =>
    Effect.gen(function* () {
      const lines: Array<unknown> = []
      const capture = Logger.make(({ message }) => void lines.push(message))
      let isFailing = false
      const server = yield* mailServer({ sender: () => (isFailing ? 450 : undefined) })
      const policy = quickPolicy({ retry: { ...quickPolicy().retry, delaysMillis: [0, 600_000] } })
      yield* Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const limited = yield* seedPendingApproval
        yield* publish(limited)
        yield* awaitRecord(limited, "delivered")
        isFailing = true
        const other = yield* seedPendingApproval
        yield* publish(other)
        yield* eventually(
          Effect.sync(() => lines.length),
          (count) => count === 1
        )
        yield* publish(limited)
        const refused = sql`SELECT FROM deliveries WHERE org_id = ${limited.org_id} AND status = 'failed'`
        yield* eventually(refused, (rows) => rows.length === 1)
      }).pipe(withMail(server.port, policy, 1), Effect.provide(Logger.layer([capture])))
      assert.notInclude(lines.flat(), "The mail server accepts mail again")
    }))

  test("no email is sent for an approval that was decided meanwhile, or to a key that was revoked or limited meanwhile", () =>
    Effect.gen(function* () {
      const server = yield* mailServer()
      const retry = { ...quickPolicy().retry, delaysMillis: [50] }
      yield* Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const decided = yield* seedPendingApproval
        yield* transaction(
          Effect.andThen(publish(decided), sql`UPDATE approvals SET status = 'approved', outcome = 'allow'`)
        )
        const one = yield* awaitRecord(decided, "failed")
        assert.deepStrictEqual(one, {
          status: "failed",
          attempts: 0,
          last_error: "the approval is already closed"
        })
        const revoked = yield* seedPendingApproval
        yield* transaction(Effect.andThen(publish(revoked), sql`UPDATE api_keys SET revoked_at = now()`))
        const { last_error } = yield* awaitRecord(revoked, "failed")
        assert.strictEqual(last_error, "the recipient's key was revoked or has expired")
        const expired = yield* seedPendingApproval
        const end = sql`UPDATE api_keys SET expires_at = now() - interval '1 second' WHERE org_id = ${expired.org_id}`
        yield* transaction(Effect.andThen(publish(expired), end))
        assert.strictEqual((yield* awaitRecord(expired, "failed")).last_error, last_error)
        const reduced = yield* seedPendingApproval
        const reduce = sql`UPDATE api_keys SET scopes = '{approvals.read}' WHERE org_id = ${reduced.org_id}`
        yield* transaction(Effect.andThen(publish(reduced), reduce))
        const { last_error: lacking } = yield* awaitRecord(reduced, "failed")
        assert.strictEqual(lacking, "the recipient's key does not have the scope approvals.decide any more")
        assert.lengthOf(server.received, 0)
      }).pipe(withMail(server.port, quickPolicy({ retry })))
    }))

  test("a transaction that rolls back queues no email", () =>
    Effect.gen(function* () {
      const server = yield* mailServer()
      yield* Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const waiting = yield* seedPendingApproval
        yield* Effect.flip(transaction(Effect.andThen(publish(waiting), Effect.fail("rolled back"))))
        assert.lengthOf(yield* sql`SELECT 1 FROM approval_mail`, 0)
        assert.lengthOf(yield* sql`SELECT 1 FROM deliveries`, 0)
      }).pipe(withMail(server.port))
    }))

  test("retention removes expired email", () =>
    Effect.gen(function* () {
      const server = yield* mailServer()
      yield* Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const waiting = yield* seedPendingApproval
        yield* publish(waiting)
        yield* awaitRecord(waiting, "delivered")
        yield* publish(waiting, "approval.expiring")
        yield* Effect.promise(() => server.arrived(2))
        const delivery = yield* Delivery
        // After the retention run at start, which would delete the expired email too.
        yield* delivery.runRetention
        yield* sql`
          UPDATE approval_mail
          SET event_id = 'evt_' || repeat('0', 32), occurred_at = now() - interval '31 days'
          WHERE type = 'approval.requested'
        `
        assert.strictEqual((yield* delivery.runRetention).payloads, 1)
        const left = yield* sql<{ readonly type: string }>`SELECT type FROM approval_mail`
        assert.deepStrictEqual(left, [{ type: "approval.expiring" }])
      }).pipe(withMail(server.port))
    }))
})
