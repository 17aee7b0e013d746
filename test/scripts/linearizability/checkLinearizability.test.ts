import { assert, describe, it } from "@effect/vitest"
import * as fc from "fast-check"
import { checkLinearizability } from "../../../scripts/linearizability/checkLinearizability.ts"
import { isAnswer, type Model } from "../../../scripts/linearizability/Model.ts"
import { isLost, type Operation } from "../../../scripts/linearizability/Operation.ts"
import { tabulate } from "../../../scripts/linearizability/tabulate.ts"
import { seededRandom } from "../../support/breakingProxy.ts"

/** The calls of a register. */
type Call =
  | { readonly kind: "read" }
  | { readonly kind: "write"; readonly value: number }
  | { readonly kind: "swap"; readonly from: number; readonly to: number }

/** A register with compare-and-swap, which answers whether it swapped. */
const register: Model<number, Call> = {
  initial: 0,
  apply: (state, operation) => {
    const { call } = operation
    switch (call.kind) {
      case "read":
        return isAnswer(operation, String(state)) ? state : undefined
      case "write":
        return isAnswer(operation, "written") ? call.value : undefined
      case "swap":
        return call.from === state
          ? isAnswer(operation, "swapped")
            ? call.to
            : undefined
          : isAnswer(operation, "kept")
            ? state
            : undefined
    }
  },
  key: String,
  isRead: ({ answer, call }) => call.kind === "read" || answer === "kept",
  describe: (call) => JSON.stringify(call)
}

/** Whether some order explains the answers: tries every order, one operation after the other. */
const isLinearizableByTrying = (state: number, left: ReadonlyArray<Operation<Call>>): boolean => {
  if (left.every(isLost)) return true
  const firstAnswer = Math.min(...left.map(({ answeredAt }) => answeredAt))
  return left.some((operation) => {
    if (operation.invokedAt > firstAnswer) return false
    const next = register.apply(state, operation)
    return (
      next !== undefined &&
      isLinearizableByTrying(
        next,
        left.filter((other) => other !== operation)
      )
    )
  })
}

/** Whether each operation of an order comes after those that were answered before its call, and explains its answer. */
const isOrder = (order: ReadonlyArray<Operation<Call>>): boolean => {
  let state: number | undefined = register.initial
  for (const [index, operation] of order.entries()) {
    if (order.slice(index).some(({ answeredAt }) => answeredAt < operation.invokedAt)) return false
    state = state === undefined ? undefined : register.apply(state, operation)
  }
  return state !== undefined
}

const value = fc.integer({ min: 0, max: 2 })
const call: fc.Arbitrary<Call> = fc.oneof(
  fc.constant({ kind: "read" as const }),
  value.map((to) => ({ kind: "write" as const, value: to })),
  fc.tuple(value, value).map(([from, to]) => ({ kind: "swap" as const, from, to }))
)
const answerOf = ({ kind }: Call): fc.Arbitrary<string | undefined> => {
  const lost = fc.constant(undefined)
  switch (kind) {
    case "read":
      return fc.oneof({ weight: 4, arbitrary: value.map(String) }, { weight: 1, arbitrary: lost })
    case "write":
      return fc.oneof({ weight: 3, arbitrary: fc.constant("written") }, { weight: 1, arbitrary: lost })
    case "swap":
      return fc.oneof(
        { weight: 2, arbitrary: fc.constant("swapped") },
        { weight: 2, arbitrary: fc.constant("kept") },
        { weight: 1, arbitrary: lost }
      )
  }
}

/** Any operations with any answers; times are small, so that many touch each other. */
const operations = fc.array(
  call.chain((one) =>
    fc
      .tuple(answerOf(one), fc.integer({ min: 0, max: 12 }), fc.integer({ min: 0, max: 5 }))
      .map(([answer, invokedAt, duration]): Operation<Call> => ({
        client: "any",
        call: one,
        answer,
        invokedAt,
        answeredAt: answer === undefined ? Number.POSITIVE_INFINITY : invokedAt + duration
      }))
  ),
  { maxLength: 7 }
)

/** A history of a register that works: every operation takes effect at a moment between its call and its answer. */
const workingHistory = (seed: number, length: number, isLossy: boolean): ReadonlyArray<Operation<Call>> => {
  const random = seededRandom(seed)
  const any = (limit: number) => Math.floor(random() * limit)
  const planned = Array.from({ length }, (_, index) => {
    const invokedAt = index + random() * 4
    const effectAt = invokedAt + random() * 4
    const answeredAt = effectAt + random() * 4
    const kinds: ReadonlyArray<Call> = [
      { kind: "read" },
      { kind: "write", value: any(3) },
      { kind: "swap", from: any(3), to: any(3) }
    ]
    return {
      call: kinds[any(3)] ?? { kind: "read" as const },
      invokedAt,
      effectAt,
      answeredAt,
      fate: isLossy ? random() : 1
    }
  })
  let state = 0
  return planned
    .toSorted((a, b) => a.effectAt - b.effectAt)
    .map(({ answeredAt, call: one, fate, invokedAt }): Operation<Call> => {
      const happens = fate > 0.1
      const answer =
        one.kind === "read"
          ? String(state)
          : one.kind === "write"
            ? "written"
            : one.from === state
              ? "swapped"
              : "kept"
      if (happens && one.kind === "write") state = one.value
      if (happens && one.kind === "swap" && one.from === state) state = one.to
      const isAnswered = fate > 0.2
      return {
        client: "any",
        call: one,
        answer: isAnswered ? answer : undefined,
        invokedAt,
        answeredAt: isAnswered ? answeredAt : Number.POSITIVE_INFINITY
      }
    })
}

const register1: Call = { kind: "write", value: 1 }

describe("checkLinearizability", () => {
  it("decide as trying every order does", () => {
    fc.assert(
      fc.property(operations, (history) => {
        const verdict = checkLinearizability(register, history)
        assert.strictEqual(verdict._tag === "Linearizable", isLinearizableByTrying(register.initial, history))
        if (verdict._tag === "Linearizable") {
          assert.isTrue(isOrder(verdict.order))
          assert.isTrue(history.filter((one) => !isLost(one) && !verdict.order.includes(one)).length === 0)
        }
      }),
      { numRuns: 3_000 }
    )
  })

  it("accept long histories of a register that works, of which some answers were lost", () => {
    for (let seed = 1; seed <= 20; seed++) {
      assert.strictEqual(
        checkLinearizability(register, workingHistory(seed, 300, true))._tag,
        "Linearizable",
        `${seed}`
      )
    }
  })

  it("reject a long history with one stale read, and report the longest order before it", () => {
    const history = workingHistory(5, 200, false)
    const end = Math.max(...history.map(({ answeredAt }) => (Number.isFinite(answeredAt) ? answeredAt : 0)))
    const write = { client: "a", call: register1, answer: "written", invokedAt: end + 1, answeredAt: end + 2 }
    const stale: Operation<Call> = {
      client: "b",
      call: { kind: "read" },
      answer: "7",
      invokedAt: end + 3,
      answeredAt: end + 4
    }
    const verdict = checkLinearizability(register, [...history, write, stale])
    assert.strictEqual(verdict._tag, "Violation")
    if (verdict._tag !== "Violation") return
    assert.include(verdict.longest, write)
    assert.notInclude(verdict.longest, stale)
  })

  it("let an operation without an answer take effect long after its call, or never, but not before it", () => {
    const lost: Operation<Call> = {
      client: "a",
      call: register1,
      answer: undefined,
      invokedAt: 10,
      answeredAt: Number.POSITIVE_INFINITY
    }
    const read = (invokedAt: number, answer: string): Operation<Call> => ({
      client: "b",
      call: { kind: "read" },
      answer,
      invokedAt,
      answeredAt: invokedAt + 1
    })
    const tag = (...history: ReadonlyArray<Operation<Call>>) => checkLinearizability(register, history)._tag
    assert.strictEqual(tag(lost, read(20, "0"), read(30, "0")), "Linearizable")
    assert.strictEqual(tag(lost, read(20, "0"), read(30, "1")), "Linearizable")
    assert.strictEqual(tag(lost, read(20, "1"), read(30, "0")), "Violation")
    assert.strictEqual(tag(lost, read(5, "1")), "Violation")
  })

  it("give up at the limit instead of an answer", () => {
    const history = Array.from({ length: 12 }, (_, index): Operation<Call> => ({
      client: `${index}`,
      call: { kind: "write", value: index },
      answer: "written",
      invokedAt: 0,
      answeredAt: 1
    }))
    const impossible: Operation<Call> = {
      client: "reader",
      call: { kind: "read" },
      answer: "99",
      invokedAt: 2,
      answeredAt: 3
    }
    assert.strictEqual(checkLinearizability(register, [...history, impossible], 100)._tag, "Undecided")
    assert.strictEqual(checkLinearizability(register, [...history, impossible])._tag, "Violation")
  })
})

describe("tabulate", () => {
  it("describe the same transitions as the model, for another checker", () => {
    const history = workingHistory(3, 40, true)
    const table = tabulate(register, history, 10)
    assert.isDefined(table)
    assert.strictEqual(table?.states, 3)
    for (const [index, operation] of history.entries()) {
      assert.lengthOf(
        table?.operations[index]?.transitions ?? [],
        [0, 1, 2].filter((state) => register.apply(state, operation) !== undefined).length
      )
    }
  })

  it("stop at the limit of states", () => {
    const writes = Array.from({ length: 5 }, (_, index): Operation<Call> => ({
      client: "a",
      call: { kind: "write", value: index },
      answer: "written",
      invokedAt: index,
      answeredAt: index
    }))
    assert.isUndefined(tabulate(register, writes, 4))
  })
})
