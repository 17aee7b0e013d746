import { assert, describe, it } from "@effect/vitest"
import { Effect, type Redacted } from "effect"
import fc from "fast-check"
import { stepDigest } from "../../src/domain/approvals/StepDigest.ts"
import { signTicket } from "../../src/server/approvals/Tickets.ts"
import { generateMasterKey, SecretBox } from "../../src/server/secrets/SecretBox.ts"
import {
  memoryUsedTickets,
  type Ticket,
  type TicketRefusalReason,
  verifyTicket,
  type VerifyTicketOptions
} from "../../src/ticket/index.ts"

const now = 1_795_228_385_000

const boxOf = Effect.gen(function* () {
  return yield* SecretBox.pipe(Effect.provide(SecretBox.layer({ masterKeys: [yield* generateMasterKey] })))
})

const step = {
  org_id: "org_1",
  session_id: "ses_1",
  step_id: "refund-1",
  tool: "payments.refund",
  action_class: "write"
}
const given = {
  order: "4711",
  amount_cents: 1299,
  note: "größer als 1 €",
  nested: [1.5, null, { b: 1, a: 2 }]
}

const ticketOf = (changes: Partial<Ticket> = {}): Ticket => ({
  iss: "https://countersign.example.com",
  ...step,
  arguments_digest: stepDigest({ ...step, arguments: given }),
  decision_source: "human",
  jti: "clm_1",
  iat: now / 1_000,
  exp: now / 1_000 + 300,
  ...changes
})

const verify = (
  box: SecretBox["Service"],
  ticket: Ticket | string,
  changes: Partial<VerifyTicketOptions> = {}
) =>
  Effect.promise(() =>
    verifyTicket(typeof ticket === "string" ? ticket : signTicket(box, ticket), {
      keys: { keys: box.publicKeys },
      issuer: "https://countersign.example.com/",
      orgId: step.org_id,
      tool: step.tool,
      arguments: given,
      used: memoryUsedTickets(() => now),
      now: () => now,
      ...changes
    })
  )

const reasonOf = (result: Effect.Success<ReturnType<typeof verify>>): TicketRefusalReason | "ok" =>
  result.ok ? "ok" : result.reason

describe("verifyTicket", () => {
  it.effect("accepts the ticket of exactly these arguments, once", () =>
    Effect.gen(function* () {
      const box = yield* boxOf
      const used = memoryUsedTickets(() => now)
      const ticket = ticketOf()
      const reordered = { nested: given.nested, note: given.note, amount_cents: 1299, order: "4711" }
      assert.deepStrictEqual(yield* verify(box, ticket, { used, arguments: reordered }), { ok: true, ticket })
      const again = yield* verify(box, ticket, { used })
      assert.strictEqual(reasonOf(again), "already_used")
    })
  )

  it.effect("refuses each thing that differs, and says which", () =>
    Effect.gen(function* () {
      const box = yield* boxOf
      const other = yield* boxOf
      const used = memoryUsedTickets(() => now)
      const cases: ReadonlyArray<
        readonly [TicketRefusalReason, Ticket | string, Partial<VerifyTicketOptions>?]
      > = [
        ["missing", ""],
        ["malformed", "not a ticket"],
        ["malformed", `${signTicket(box, ticketOf())}.x`],
        ["malformed", "x".repeat(8_193)],
        ["unknown_key", ticketOf(), { keys: { keys: other.publicKeys } }],
        ["wrong_issuer", ticketOf(), { issuer: "https://other.example.com" }],
        ["wrong_organization", ticketOf(), { orgId: "org_2" }],
        ["wrong_tool", ticketOf(), { tool: "payments.payout" }],
        ["wrong_action_class", ticketOf(), { actionClass: "read" }],
        ["wrong_arguments", ticketOf(), { arguments: { ...given, amount_cents: 129_900 } }],
        ["wrong_arguments", ticketOf(), { arguments: undefined }],
        ["wrong_arguments", ticketOf(), { arguments: {} }],
        ["wrong_arguments", ticketOf(), { arguments: { ...given, note: "\ud800" } }],
        ["wrong_arguments", ticketOf(), { arguments: { ...given, amount_cents: Number.NaN } }],
        ["wrong_arguments", ticketOf({ session_id: "ses_2" })],
        ["wrong_arguments", ticketOf({ step_id: "refund-2" })],
        ["issued_in_future", ticketOf({ iat: now / 1_000 + 31 })],
        ["expired", ticketOf({ exp: now / 1_000 })]
      ]
      for (const [reason, ticket, options] of cases) {
        assert.strictEqual(reasonOf(yield* verify(box, ticket, { used, ...options })), reason)
      }
      // None of the refusals has used the ticket up.
      assert.strictEqual(reasonOf(yield* verify(box, ticketOf(), { used })), "ok")
    })
  )

  it.effect("accepts a ticket of now, at its last moment and with a clock that is 30 seconds behind", () =>
    Effect.gen(function* () {
      const box = yield* boxOf
      const seconds = now / 1_000
      for (const changes of [{}, { exp: seconds + 1 }, { iat: seconds + 30 }]) {
        assert.strictEqual(reasonOf(yield* verify(box, ticketOf(changes))), "ok")
      }
    })
  )

  it.effect("refuses a ticket whose header or content was changed in any character", () =>
    Effect.gen(function* () {
      const box = yield* boxOf
      const ticket = signTicket(box, ticketOf())
      yield* Effect.promise(() =>
        fc.assert(
          fc.asyncProperty(
            fc.nat({ max: ticket.length - 1 }),
            fc.constantFrom("A", "b", "-", ".", "7"),
            async (at, by) => {
              const changed = `${ticket.slice(0, at)}${by}${ticket.slice(at + 1)}`
              const result = await Effect.runPromise(verify(box, changed))
              // The last character of base64url has unused bits: it may have another spelling.
              const isSameSignature =
                Buffer.from(changed.split(".").at(-1) ?? "", "base64url").equals(
                  Buffer.from(ticket.split(".").at(-1) ?? "", "base64url")
                ) && changed.split(".").slice(0, 2).join(".") === ticket.split(".").slice(0, 2).join(".")
              assert.strictEqual(result.ok, isSameSignature)
            }
          ),
          { numRuns: 200 }
        )
      )
    })
  )

  it.effect("accepts neither another algorithm nor another kind of token, however it is signed", () =>
    Effect.gen(function* () {
      const box = yield* boxOf
      const part = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url")
      const [key] = box.publicKeys
      for (const header of [
        { alg: "none", typ: "countersign-ticket+jwt", kid: key.kid },
        { alg: "HS256", typ: "countersign-ticket+jwt", kid: key.kid },
        { alg: "EdDSA", typ: "JWT", kid: key.kid },
        { alg: "EdDSA", typ: "countersign-ticket+jwt" }
      ]) {
        const text = `${part(header)}.${part(ticketOf())}`
        const signature = Buffer.from(box.signPublicly(Buffer.from(text))).toString("base64url")
        assert.strictEqual(reasonOf(yield* verify(box, `${text}.${signature}`)), "malformed")
      }
    })
  )

  it.effect("binds any JSON arguments as the service does", () =>
    Effect.gen(function* () {
      const box = yield* boxOf
      yield* Effect.promise(() =>
        fc.assert(
          fc.asyncProperty(fc.jsonValue(), async (value) => {
            const arguments_ = JSON.parse(JSON.stringify(value))
            const ticket = ticketOf({ arguments_digest: stepDigest({ ...step, arguments: arguments_ }) })
            assert.isTrue((await Effect.runPromise(verify(box, ticket, { arguments: arguments_ }))).ok)
          }),
          { numRuns: 200 }
        )
      )
    })
  )

  it.effect("refuses arguments that are nested too deep or contain themselves", () =>
    Effect.gen(function* () {
      const box = yield* boxOf
      const nested = (depth: number): unknown => JSON.parse("[".repeat(depth) + "]".repeat(depth))
      // The service accepts 64 levels.
      const deep = { ...step, arguments: JSON.parse("[".repeat(64) + "]".repeat(64)) }
      const ticket = ticketOf({ arguments_digest: stepDigest(deep) })
      assert.strictEqual(reasonOf(yield* verify(box, ticket, deep)), "ok")
      const cycle: Array<unknown> = []
      cycle.push(cycle, cycle)
      for (const given of [nested(100_000), { a: nested(501) }, cycle]) {
        assert.strictEqual(reasonOf(yield* verify(box, ticketOf(), { arguments: given })), "wrong_arguments")
      }
    })
  )

  it.effect(
    "after a rotation of the master key, tickets of the previous key hold while the service has it",
    () =>
      Effect.gen(function* () {
        const [newer, older] = [yield* generateMasterKey, yield* generateMasterKey]
        const boxWith = (
          masterKeys: readonly [Redacted.Redacted<string>, ...Array<Redacted.Redacted<string>>]
        ) => SecretBox.pipe(Effect.provide(SecretBox.layer({ masterKeys })))
        const before = yield* boxWith([older])
        const during = yield* boxWith([newer, older])
        const after = yield* boxWith([newer])
        const ticket = signTicket(before, ticketOf())
        assert.strictEqual(reasonOf(yield* verify(during, ticket)), "ok")
        assert.strictEqual(reasonOf(yield* verify(after, ticket)), "unknown_key")
        assert.strictEqual(reasonOf(yield* verify(after, signTicket(during, ticketOf()))), "ok")
      })
  )
})
