/**
 * What a receiver and a reader of streams understood in version 0.1, before rules asked for several people, is all that they need today. The
 * schemas here are those of that time: they must not follow the project's.
 */
import { assert, layer } from "@effect/vitest"
import { Effect, Redacted, Schema } from "effect"
import { StepId } from "../../src/domain/Ids.ts"
import { Countersign } from "../../src/testing/index.ts"
import { awaitDeliveries, matchingSecrets, seedEndpoint } from "../support/notifications.ts"
import { service } from "../support/service.ts"

const Time = Schema.String.check(Schema.isPattern(/^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$/u))
const Actor = Schema.Struct({ id: Schema.String, name: Schema.String })

const OldApproval = Schema.Struct({
  approval_id: Schema.String,
  session_id: Schema.String,
  step_id: Schema.String,
  task_id: Schema.NullOr(Schema.String),
  status: Schema.Literals(["pending", "approved", "rejected", "expired"]),
  stage: Schema.Literals(["reviewer", "admin"]),
  requested_at: Time,
  review_deadline_at: Time,
  escalation_deadline_at: Schema.NullOr(Time),
  expires_at: Time,
  decided_at: Schema.NullOr(Time),
  decided_by: Schema.NullOr(Actor)
})

const OldWebhookEvent = Schema.Struct({
  id: Schema.String,
  type: Schema.Literals([
    "approval.requested",
    "approval.expiring",
    "approval.escalated",
    "approval.approved",
    "approval.rejected",
    "approval.expired",
    "test"
  ]),
  org_id: Schema.String,
  occurred_at: Time,
  approval: Schema.Struct({
    ...OldApproval.fields,
    decided_at: Schema.optionalKey(Schema.NullOr(Time)),
    decided_by: Schema.optionalKey(Schema.NullOr(Actor))
  })
})

/** The types of a stream's events that a reader knew, and what it read of each. Others it ignored, as the reference tells. */
const oldStreamTypes = new Set([
  "step:governed",
  "tool:outcome",
  "approval:requested",
  "approval:expiring",
  "approval:escalated",
  "approval:decided",
  "session:closed"
])
const OldStreamEvent = Schema.Struct({
  id: Schema.Int,
  type: Schema.String,
  session_id: Schema.String,
  occurred_at: Time,
  step_id: Schema.NullOr(Schema.String),
  decision: Schema.optionalKey(Schema.Literals(["allow", "reject", "pending"])),
  reason: Schema.optionalKey(Schema.String),
  rule_id: Schema.optionalKey(Schema.NullOr(Schema.String)),
  approval_id: Schema.optionalKey(Schema.NullOr(Schema.String)),
  arguments_digest: Schema.optionalKey(Schema.String),
  approval: Schema.optionalKey(
    Schema.Struct({
      ...OldApproval.fields,
      tool: Schema.String,
      action_class: Schema.String,
      escalated_at: Schema.NullOr(Time),
      timeout_action: Schema.Literals(["allow", "reject"]),
      outcome: Schema.NullOr(Schema.Literals(["allow", "reject"])),
      decision_source: Schema.NullOr(Schema.Literals(["human", "timeout", "session_closed"])),
      comment: Schema.NullOr(Schema.String)
    })
  )
})

const decodeWebhook = Schema.decodeUnknownSync(Schema.fromJsonString(OldWebhookEvent))
const decodeStream = Schema.decodeUnknownSync(Schema.fromJsonString(OldStreamEvent))

layer(service(), { excludeTestServices: true, timeout: "120 seconds" })("Consumers of version 0.1", (it) => {
  it.effect(
    "a receiver and a reader of streams that know only old events understand all of what is new",
    () =>
      Effect.gen(function* () {
        const { client, key, url } = yield* Countersign
        const { admin, endpoint, receiver, secret } = yield* seedEndpoint("old consumers")
        yield* admin.approvalRules.replace({
          payload: {
            rules: [
              { tool: "payments.*", effect: "require_approval", quorum: [{ count: 2 }] },
              { tool: "cache.*", effect: "require_approval", review_seconds: 1, escalation_seconds: 1 },
              {
                tool: "mail.*",
                effect: "allow",
                when: [{ pointer: "/to", op: "ends_with", value: "@example.com" }]
              },
              { effect: "require_approval" }
            ]
          }
        })
        const agent = yield* client({ preset: "runtime" }, "old consumers")
        const { session_id } = yield* agent.sessions.create({})
        const step = (step_id: string, tool: string, given: Schema.JsonObject = {}) =>
          agent.sessions.step({
            params: { id: session_id },
            payload: { step_id: StepId.make(step_id), tool, action_class: "write", arguments: given }
          })
        const decide = (
          reviewer: typeof agent,
          { approval_id }: Effect.Success<ReturnType<typeof step>>,
          payload: Parameters<typeof agent.approvals.decide>[0]["payload"]
        ) =>
          reviewer.approvals.decide({
            params: { id: approval_id ?? assert.fail("the step waits for a person") },
            payload
          })
        const ada = yield* client({ preset: "reviewer", name: "Ada" }, "old consumers")
        const ben = yield* client({ preset: "reviewer", name: "Ben" }, "old consumers")

        // Several people, a rejection by one of them, a counter-proposal and its use, a standing grant, conditions, an escalation and its end.
        const paid = yield* step("paid", "payments.pay")
        yield* decide(ada, paid, { decision: "approve" })
        yield* decide(ben, paid, { decision: "approve" })
        const refused = yield* step("refused", "payments.pay")
        yield* decide(ada, refused, { decision: "approve" })
        yield* decide(ben, refused, { decision: "reject" })
        const other = yield* step("proposed", "crm.update", { a: 1 })
        yield* decide(ada, other, { decision: "reject", proposed_arguments: { a: 2 } })
        yield* step("accepted", "crm.update", { a: 2 })
        const asked = yield* step("asked", "files.move")
        yield* decide(ada, asked, { decision: "approve", grant: { scope: "tool" } })
        yield* step("granted", "files.move", { to: "/archive" })
        yield* step("by condition", "mail.send", { to: "maria@example.com" })
        yield* step("expires", "cache.clear")
        const deliveries = yield* awaitDeliveries(
          admin,
          endpoint.id,
          (list) =>
            list.some(({ label }) => label.startsWith("approval.expired")) &&
            list.every(({ status }) => status === "delivered")
        )
        yield* agent.sessions.close({ params: { id: session_id } })

        assert.strictEqual(receiver.seen.length, deliveries.length)
        const told = receiver.seen.map(({ body }) => decodeWebhook(body))
        for (const request of receiver.seen) {
          assert.deepStrictEqual(yield* matchingSecrets(request, [secret]), [0])
        }
        const typesOf = (step_id: string) =>
          told.filter(({ approval }) => approval.step_id === step_id).map(({ type }) => type)
        assert.sameMembers(typesOf("paid"), ["approval.requested", "approval.approved"])
        assert.sameMembers(typesOf("refused"), ["approval.requested", "approval.rejected"])
        assert.sameMembers(typesOf("proposed"), ["approval.requested", "approval.rejected"])
        assert.includeMembers(typesOf("expires"), [
          "approval.requested",
          "approval.escalated",
          "approval.expired"
        ])

        const reader = yield* key({ preset: "runtime", name: "reader" }, "old consumers")
        const stream = yield* Effect.promise(async () => {
          const response = await fetch(`${url}/v1/agent-sessions/${session_id}/events/stream`, {
            headers: { authorization: `Bearer ${Redacted.value(reader)}` }
          })
          return response.text()
        })
        const events = stream.split("\n\n").flatMap((frame) => {
          const lines = frame.split("\n")
          const valueOf = (name: string) =>
            lines.find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2)
          const type = valueOf("event")
          return type !== undefined && oldStreamTypes.has(type) ? [decodeStream(valueOf("data"))] : []
        })
        // Each step that was asked for was answered, and each approval that was requested was decided.
        const idsOf = (type: string) =>
          events
            .filter((event) => event.type === type)
            .map(({ step_id }) => step_id)
            .toSorted()
        assert.deepStrictEqual(idsOf("approval:decided"), idsOf("approval:requested"))
        assert.lengthOf(idsOf("approval:decided"), 5)
        assert.strictEqual(events.at(-1)?.type, "session:closed")
        for (const name of ["accepted", "granted", "by condition"]) {
          assert.strictEqual(events.find(({ step_id }) => step_id === name)?.decision, "allow")
        }
      }).pipe(Effect.scoped, Effect.orDie)
  )
})
