import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, type Redacted } from "effect"
import { SqlClient } from "effect/sql"
import type { NewApprovalRule } from "../../../src/api/ApprovalRules.ts"
import type { ClientCalls } from "../../../src/client/Client.ts"
import { ApprovalId, StepId } from "../../../src/domain/Ids.ts"
import type { Preset, Scope } from "../../../src/domain/identity/Scope.ts"
import { Countersign } from "../../../src/testing/index.ts"
import { mailServer, type MailServerOptions, type ReceivedMail } from "../../support/mail.ts"
import { startScriptedServer } from "../../support/scripted.ts"
import { service } from "../../support/service.ts"
import { eventually } from "../../support/eventually.ts"

type Rule = Partial<NewApprovalRule>

/** Runs a test against a service that sends its mail to a real SMTP server. */
const withMail = <A, E>(
  use: (fixture: {
    readonly admin: ClientCalls
    readonly server: Effect.Success<ReturnType<typeof mailServer>>
    readonly person: (
      email: string,
      input: {
        readonly preset?: Preset
        readonly scopes?: readonly [Scope, ...Array<Scope>]
        readonly groups?: ReadonlyArray<string>
      }
    ) => Effect.Effect<Redacted.Redacted>
    readonly rules: (rule: Rule) => Effect.Effect<void>
    readonly ask: (tool?: string) => Effect.Effect<string>
  }) => Effect.Effect<A, E, Countersign | SqlClient.SqlClient>,
  options: MailServerOptions = {}
) =>
  Effect.scoped(
    Effect.gen(function* () {
      const server = yield* mailServer(options)
      const run = Effect.gen(function* () {
        const countersign = yield* Countersign
        const admin = yield* countersign.client()
        return yield* use({
          admin,
          server,
          person: (email, input) => countersign.key({ name: email, email, ...input }),
          rules: (rule) =>
            Effect.asVoid(
              Effect.orDie(
                admin.approvalRules.replace({
                  payload: { rules: [{ effect: "require_approval", ...rule }] }
                })
              )
            ),
          ask: (tool = "payments.refund") =>
            Effect.gen(function* () {
              const { session_id } = yield* admin.sessions.create({})
              const { approval_id } = yield* admin.sessions.step({
                params: { id: session_id },
                payload: {
                  step_id: StepId.make("1"),
                  tool,
                  action_class: "write",
                  arguments: { iban: "DE00-SECRET" }
                }
              })
              return approval_id ?? assert.fail("the step needs an approval")
            }).pipe(Effect.orDie)
        })
      })
      return yield* run.pipe(
        Effect.provide(
          Layer.fresh(
            service({
              environment: {
                COUNTERSIGN_SMTP_URL: `smtp://127.0.0.1:${server.port}`,
                COUNTERSIGN_MAIL_FROM: "Countersign <no-reply@countersign.example>",
                COUNTERSIGN_PUBLIC_URL: "https://approvals.example.org"
              }
            })
          )
        )
      )
    })
  )

/** Brings every approval an hour nearer to its deadlines. */
const passHour = Effect.flatMap(
  SqlClient.SqlClient,
  (sql) => sql`
    UPDATE approvals
    SET
      requested_at = requested_at - interval '1 hour',
      review_deadline_at = review_deadline_at - interval '1 hour',
      escalation_deadline_at = escalation_deadline_at - interval '1 hour',
      expires_at = expires_at - interval '1 hour',
      escalated_at = escalated_at - interval '1 hour',
      next_due_at = next_due_at - interval '1 hour'
  `
)

const recipients = (mails: ReadonlyArray<ReceivedMail>, subject: RegExp) =>
  mails
    .filter(({ headers }) => subject.test(headers.get("subject") ?? ""))
    .flatMap(({ to }) => to)
    .toSorted()

describe("Email", () => {
  it.live("admins are told by email when telemetry exports content, and when it goes to another host", () =>
    withMail(({ admin, person, server }) =>
      Effect.gen(function* () {
        yield* person("ada@example.org", { preset: "reviewer" })
        yield* person("root@example.org", { preset: "admin" })
        const create = (url: string, content: boolean) =>
          admin.telemetryDestinations.create({ payload: { url, content } })
        const replace = Effect.fnUntraced(function* (url: string, content: boolean) {
          const { destinations } = yield* admin.telemetryDestinations.list({})
          for (const { id } of destinations) yield* admin.telemetryDestinations.remove({ params: { id } })
          return yield* create(url, content)
        })
        // Nobody is told of the first collector, nor of another path or other settings of it.
        yield* create("https://93.184.215.14/one", false)
        yield* replace("https://93.184.215.14/two", false)
        yield* replace("https://93.184.215.14/two", true)
        yield* replace("https://1.1.1.1/two", false)
        yield* Effect.promise(() => server.arrived(2))
        assert.deepStrictEqual(
          server.received.map(({ headers, to }) => [headers.get("subject"), ...to]),
          [
            ["Telemetry exports content: test", "root@example.org"],
            ["Telemetry goes to another host: test", "root@example.org"]
          ]
        )
        const [, moved] = server.received
        assert.include(moved?.text ?? "", "https://1.1.1.1/…")
        assert.include(moved?.text ?? "", "https://93.184.215.14/…")
        const { entries } = yield* admin.auditLog.list({ query: {} })
        assert.deepStrictEqual(
          entries
            .map(({ action }) => action)
            .filter((action) => /content_enabled|host_changed/u.test(action)),
          ["destination.host_changed", "destination.content_enabled"]
        )
      })
    )
  )

  it.live("a new approval is mailed to reviewers and admins, with a link and without arguments", () =>
    withMail(({ ask, person, server }) =>
      Effect.gen(function* () {
        yield* person("ada@example.org", { preset: "reviewer" })
        yield* person("root@example.org", { preset: "admin" })
        yield* person("decides@example.org", { scopes: ["approvals.decide"] })
        yield* person("agent@example.org", { preset: "runtime" })
        // A person with two keys gets one email, whatever the case of the address.
        yield* person("Ada@Example.org", { preset: "reviewer" })
        // Her key of another organization, although an admin's, has no part in it.
        const { key } = yield* Countersign
        yield* key({ name: "Ada", email: "ada@example.org", preset: "admin" }, "another organization")
        const approval_id = yield* ask()
        yield* Effect.promise(() => server.arrived(3))
        const sql = yield* SqlClient.SqlClient
        assert.lengthOf(yield* sql`SELECT 1 FROM approval_mail`, 3)
        assert.deepStrictEqual(
          server.received.flatMap(({ to }) => to.map((address) => address.toLowerCase())).toSorted(),
          ["ada@example.org", "decides@example.org", "root@example.org"]
        )
        const link = `https://approvals.example.org/console/approvals/${approval_id}`
        const ids = new Set<string>()
        for (const { from, headers, html, raw, text } of server.received) {
          assert.strictEqual(from, "no-reply@countersign.example")
          assert.strictEqual(headers.get("from"), "Countersign <no-reply@countersign.example>")
          assert.strictEqual(headers.get("subject"), "Approval requested: test")
          assert.strictEqual(headers.get("auto-submitted"), "auto-generated")
          assert.strictEqual(headers.get("references"), `<${approval_id}@approvals.example.org>`)
          assert.include(text, link)
          assert.include(html, `href="${link}"`)
          assert.include(text, approval_id)
          assert.notInclude(text + html + raw, "SECRET")
          ids.add(headers.get("message-id") ?? "")
        }
        assert.strictEqual(ids.size, 3)
        for (const id of ids) assert.match(id, /^<evt_[0-9a-f]{32}@approvals\.example\.org>$/)
      })
    )
  )

  it.live("expiring and expired approvals are mailed to everyone, escalated ones to the admins alone", () =>
    withMail(({ ask, person, rules, server }) =>
      Effect.gen(function* () {
        yield* person("ada@example.org", { preset: "reviewer" })
        yield* person("root@example.org", { preset: "admin" })
        yield* rules({ review_seconds: 7_200, expiring_seconds: 3_600, escalation_seconds: 7_200 })
        yield* ask()
        yield* Effect.promise(() => server.arrived(2))
        // Requested, expiring, escalated, expiring again, expired: each an hour after the one before.
        for (const count of [4, 5, 6, 8]) {
          yield* passHour
          yield* Effect.promise(() => server.arrived(count))
        }
        const both = ["ada@example.org", "root@example.org"]
        const of = (subject: RegExp) => recipients(server.received, subject)
        assert.deepStrictEqual(of(/^Approval requested: /), both)
        assert.deepStrictEqual(of(/^Approval escalated to admins: /), ["root@example.org"])
        // Near the end of the reviewers' window everyone gets an email, near the end of the admins' window the admin.
        assert.deepStrictEqual(of(/^Approval expires 2/), [
          "ada@example.org",
          "root@example.org",
          "root@example.org"
        ])
        assert.deepStrictEqual(of(/^Approval expired, step rejected: /), both)
        assert.lengthOf(server.received, 8)
      })
    )
  )

  it.live(
    "only members of the groups that a quorum names are mailed, later admins too, with the progress",
    () =>
      withMail(({ ask, person, rules, server }) =>
        Effect.gen(function* () {
          const ada = yield* person("ada@example.org", { preset: "reviewer", groups: ["finance"] })
          yield* person("ben@example.org", { preset: "reviewer", groups: ["legal", "support"] })
          yield* person("cy@example.org", { preset: "reviewer", groups: ["support"] })
          yield* person("root@example.org", { preset: "admin" })
          yield* rules({
            review_seconds: 7_200,
            expiring_seconds: 3_600,
            escalation_seconds: 7_200,
            quorum: [{ group: "finance" }, { group: "legal" }]
          })
          const approval_id = yield* ask()
          yield* Effect.promise(() => server.arrived(2))
          const of = (subject: RegExp) => recipients(server.received, subject)
          assert.deepStrictEqual(of(/^Approval requested: /), ["ada@example.org", "ben@example.org"])
          const countersign = yield* Countersign
          yield* (yield* countersign.clientWith(ada)).approvals.decide({
            params: { id: ApprovalId.make(approval_id) },
            payload: { decision: "approve" }
          })
          // Expiring, escalated, expiring again, expired.
          for (const count of [4, 5, 6, 9]) {
            yield* passHour
            yield* Effect.promise(() => server.arrived(count))
          }
          const reminder = server.received.find(({ headers }) =>
            headers.get("subject")?.startsWith("Approval expires")
          )
          assert.match(reminder?.text ?? "", /Approvals +1 of 2, waiting for legal/)
          assert.deepStrictEqual(of(/^Approval escalated to admins: /), ["root@example.org"])
          assert.deepStrictEqual(of(/^Approval expired, step rejected: /), [
            "ada@example.org",
            "ben@example.org",
            "root@example.org"
          ])
        })
      )
  )

  it.live("admins get mail however many other recipients there are", () =>
    withMail(({ ask, person, rules, server }) =>
      Effect.gen(function* () {
        yield* person("a@example.org", { preset: "reviewer" })
        yield* person("zoe@example.org", { preset: "admin" })
        const sql = yield* SqlClient.SqlClient
        yield* sql`
          INSERT INTO api_keys (org_id, key_id, public_id, digest, name, preset, email, created_at)
          SELECT
            org_id, overlay(key_id placing lpad(number::text, 7, 'f') from 30), 'none' || number, digest, name, preset,
            'b' || number || '@example.org', created_at
          FROM api_keys, generate_series(1, 100) AS number
          WHERE email = 'a@example.org'
        `
        yield* rules({ review_seconds: 1, expiring_seconds: 0, escalation_seconds: 60 })
        yield* ask()
        yield* Effect.promise(() => server.arrived(101))
        assert.deepStrictEqual(recipients(server.received, /^Approval escalated to admins: /), [
          "zoe@example.org"
        ])
        assert.lengthOf(recipients(server.received, /^Approval requested: /), 100)
      })
    )
  )

  it.live("revoked and expired keys get no email, and decisions are not mailed", () =>
    withMail(({ admin, ask, person, server }) =>
      Effect.gen(function* () {
        const countersign = yield* Countersign
        yield* person("gone@example.org", { preset: "reviewer" })
        const { keys } = yield* admin.apiKeys.list({ query: {} })
        const gone = keys.find(({ email }) => email === "gone@example.org") ?? assert.fail("a key")
        yield* admin.apiKeys.revoke({ params: { id: gone.id } })
        const ada = yield* countersign.clientWith(yield* person("ada@example.org", { preset: "reviewer" }))
        const sql = yield* SqlClient.SqlClient
        yield* person("ended@example.org", { preset: "reviewer" })
        yield* sql`UPDATE api_keys SET expires_at = now() - interval '1 s' WHERE email = 'ended@example.org'`
        const { approvals } = yield* Effect.andThen(ask(), admin.approvals.list({ query: {} }))
        const { approval_id } = approvals[0] ?? assert.fail("an approval")
        yield* Effect.promise(() => server.arrived(1))
        yield* ada.approvals.decide({ params: { id: approval_id }, payload: { decision: "approve" } })
        yield* ask()
        yield* Effect.promise(() => server.arrived(2))
        assert.deepStrictEqual(
          server.received.map(({ headers, to }) => [to, headers.get("subject")]),
          [
            [["ada@example.org"], "Approval requested: test"],
            [["ada@example.org"], "Approval requested: test"]
          ]
        )
      })
    )
  )

  it.live("email_notifier shows whether reviewers can be reached by email", () =>
    withMail(({ admin, person }) =>
      Effect.gen(function* () {
        const notified = Effect.map(admin.notificationEndpoints.list(), (list) => list.email_notifier)
        yield* person("agent@example.org", { preset: "runtime" })
        assert.isFalse(yield* notified)
        yield* person("ada@example.org", { preset: "reviewer" })
        assert.isTrue(yield* notified)
        const other = yield* (yield* Countersign).client({}, "another organization")
        assert.isFalse((yield* other.notificationEndpoints.list()).email_notifier)
        const sql = yield* SqlClient.SqlClient
        yield* sql`UPDATE api_keys SET expires_at = now() - interval '1 second' WHERE email = 'ada@example.org'`
        assert.isFalse(yield* notified)
        yield* person("bob@example.org", { preset: "reviewer" })
        assert.isTrue(yield* notified)
        const { keys } = yield* admin.apiKeys.list({ query: {} })
        const bob = keys.find(({ email }) => email === "bob@example.org") ?? assert.fail("a key")
        yield* admin.apiKeys.revoke({ params: { id: bob.id } })
        assert.isFalse(yield* notified)
      })
    )
  )

  it.live("the name of a tool cannot inject headers or markup", () =>
    withMail(({ ask, person, server }) =>
      Effect.gen(function* () {
        yield* person("ada@example.org", { preset: "reviewer" })
        yield* ask(`"><script>alert(1)</script> Bcc: mallory@example.net`)
        yield* Effect.promise(() => server.arrived(1))
        const [mail] = server.received
        assert.deepStrictEqual(mail?.to, ["ada@example.org"])
        assert.deepStrictEqual(mail?.headerNames, [
          "auto-submitted",
          "x-auto-response-suppress",
          "from",
          "to",
          "in-reply-to",
          "references",
          "subject",
          "message-id",
          "date",
          "mime-version",
          "content-type"
        ])
        assert.strictEqual(mail?.headers.get("subject"), "Approval requested: test")
        assert.notInclude(mail?.html ?? "", "<script")
        assert.include(mail?.html ?? "", "&lt;script&gt;")
      })
    )
  )

  it.live("a mail server that hangs does not delay webhooks", () =>
    withMail(
      ({ admin, ask, person }) =>
        Effect.scoped(
          Effect.gen(function* () {
            yield* person("ada@example.org", { preset: "reviewer" })
            const receiver = yield* startScriptedServer([{ status: 204 }])
            const { endpoint } = yield* admin.notificationEndpoints.create({
              payload: { url: receiver.url }
            })
            for (let i = 0; i < 20; i++) yield* ask()
            yield* Effect.promise(() => receiver.arrived(20))
            const { deliveries } = yield* eventually(
              admin.notificationEndpoints.listDeliveries({ params: { id: endpoint.id } }),
              (list) => list.deliveries.every(({ status }) => status === "delivered")
            )
            assert.lengthOf(deliveries, 20)
          })
        ),
      { connect: () => "never" }
    )
  )
})
