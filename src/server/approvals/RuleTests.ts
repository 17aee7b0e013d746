import { Context, DateTime, Effect, Layer, Option, type Scope, Stream } from "effect"
import { SqlClient } from "effect/sql"
import { DEFAULT_TEST_DAYS, MAX_RULE_TESTS, type TestApprovalRules } from "../../api/ApprovalRules.ts"
import { Authorized } from "../../api/Authorization.ts"
import { InvalidRequest, RateLimited, type RulesTooLarge, type UnknownGroup } from "../../api/Problems.ts"
import {
  makeRuleTestTally,
  MAX_LISTED_STEPS,
  recordedEffect,
  type RuleTestFinding,
  type RuleTestLine,
  type RuleTestStep
} from "../../domain/approvals/RuleTest.ts"
import { makeStepMeter } from "../../domain/approvals/BudgetMeter.ts"
import { appendEntries, type BudgetUse, compactUse, timeOf } from "../../domain/approvals/budgetUse.ts"
import { makeNumberFinder } from "../../domain/approvals/findNumbers.ts"
import { findRuleWarnings } from "../../domain/approvals/ruleWarnings.ts"
import { actorOf } from "../../domain/identity/Principal.ts"
import type { OrgId } from "../../domain/Ids.ts"
import { KeyedBudget } from "../admission/KeyedBudget.ts"
import { LoopTurns } from "../admission/LoopTurns.ts"
import type { Timestamp } from "../../domain/Time.ts"
import { LruCache } from "../concurrency/LruCache.ts"
import { LimitUse } from "../observability/LimitUse.ts"
import { StoreClock } from "../store/StoreClock.ts"
import { MAX_COUNTERS } from "./BudgetCounters.ts"
import { type PreparedRules, Rules } from "./Rules.ts"
import {
  PAGE_STEPS,
  readArguments,
  readSteps,
  type StepCursor,
  type StepOfPage
} from "./RuleTests/readSteps.ts"
import { parseArguments } from "./parseArguments.ts"

/** Longest slice of evaluations, in milliseconds, between two turns at the event loop. */
const SLICE_MILLIS = 8

/** Entries of counters that a test has in memory, about 100 bytes each. Past it the least recently used counters start again. */
const MAX_ENTRIES_IN_MEMORY = 300_000

/** Pages between two lines of progress. */
const PROGRESS_PAGES = 40

/** Tests rules on recorded steps. */
export class RuleTests extends Context.Service<
  RuleTests,
  {
    /**
     * Evaluates rules on the steps of a window, newest first, or oldest first if rules have budgets, and compares the results with the records. The stream ends with the result.
     * It reads page by page, so its memory does not depend on the number of steps. It counts towards the organization's limit until the
     * scope, that of the request, closes.
     */
    readonly test: (
      input: TestApprovalRules
    ) => Effect.Effect<
      Stream.Stream<RuleTestLine>,
      InvalidRequest | RulesTooLarge | UnknownGroup | RateLimited,
      Authorized<"approvals.read"> | Scope.Scope
    >
  }
>()("countersign/server/approvals/RuleTests") {
  static readonly layer = Layer.effect(
    RuleTests,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const rules = yield* Rules
      const clock = yield* StoreClock
      const turns = yield* LoopTurns
      const use = yield* LimitUse
      const running = new KeyedBudget<OrgId>({ perKey: MAX_RULE_TESTS })

      const tooManyTests = Effect.suspend(() => {
        use.refused("rule_tests")
        return Effect.fail(
          new RateLimited({
            detail: `This organization already runs ${MAX_RULE_TESTS} tests of rules on this replica. Wait until one of them ends, or close its connection.`,
            retry_after_seconds: 5
          })
        )
      })

      /** Counts a test of the organization until the scope closes. */
      const admit = (org_id: OrgId) =>
        Effect.acquireRelease(
          Effect.suspend(() => {
            if (!running.fits(org_id)) return tooManyTests
            use.used("rule_tests", (running.inUseBy(org_id) + 1) / MAX_RULE_TESTS)
            return Effect.sync(() => running.take(org_id))
          }),
          () => Effect.sync(() => running.giveBack(org_id))
        )

      return RuleTests.of({
        test: Effect.fn("RuleTests.test")(function* (input) {
          const { org_id } = yield* Authorized("approvals.read")
          const until = input.until ?? (yield* clock.now)
          const since = input.since ?? DateTime.subtract(until, { days: DEFAULT_TEST_DAYS })
          if (DateTime.isGreaterThan(since, until)) return yield* emptyWindow
          // Before the rules are compiled, which takes up to some hundred milliseconds.
          yield* admit(org_id)
          const tested = yield* rules.prepare(org_id, input.rules)
          const withArguments = tested.compiled.readsArguments
          return Stream.suspend(() => {
            const window = { org_id, since, until, withArguments, inOrder: tested.compiled.hasBudgets }
            const test = startTest(tested, {
              turn: turns.take(org_id),
              readArguments: (step) => Effect.orDie(readArguments(sql, org_id, step))
            })
            const findings = Stream.paginate(firstPage, (after) =>
              Effect.gen(function* () {
                const steps = yield* Effect.orDie(readSteps(sql, window, after))
                const lines = yield* test.evaluate(steps)
                const last = steps.length < PAGE_STEPS ? undefined : steps.at(-1)
                return [lines, Option.fromUndefinedOr(last)] as const
              })
            )
            const result = Stream.fromEffect(Effect.sync(() => test.result({ since, until })))
            return Stream.concat(findings, result)
          })
        })
      })
    })
  )
}

const emptyWindow = Effect.fail(
  new InvalidRequest({
    detail: "The window ends before it starts: #/since: expected a time that is not after `until`.",
    errors: [{ pointer: "#/since", detail: "Expected a time that is not after `until`." }]
  })
)

const firstPage: StepCursor | undefined = undefined

/** The dependencies of a test. */
interface TestDeps {
  /** Waits for the next turn at the event loop. */
  readonly turn: Effect.Effect<void>
  /** Reads arguments that are too large for a page. */
  readonly readArguments: (step: StepOfPage) => Effect.Effect<string | null>
}

/** A test of rules, between its pages. */
const startTest = ({ compiled, rules }: PreparedRules, { readArguments, turn }: TestDeps) => {
  const tally = makeRuleTestTally()
  const uses = new LruCache<BudgetUse>({ entries: MAX_COUNTERS, weight: MAX_ENTRIES_IN_MEMORY })
  const numbers = makeNumberFinder(rules)
  const listed: Record<RuleTestFinding, number> = { rejected_would_run: 0, approved_would_be_rejected: 0 }
  let pages = 0

  const evaluateStep = (step: StepOfPage, text: string | null): RuleTestStep | undefined => {
    const { approval_id, decision_source, outcome, requested_at, session_id, step_id } = step
    const { action_class, comment, decided_at, decided_by_id, decided_by_name, task_id, tool } = step
    const now = requested_at.epochMilliseconds
    const input = {
      tool,
      action_class,
      task_id,
      arguments: text === null ? undefined : parseArguments(text)
    }
    numbers.look(input)
    const meter = makeStepMeter(
      "live",
      { session_id, key_id: step.requested_by_id, now },
      (counter) => uses.get(counter) ?? []
    )
    const ruling = compiled.evaluate(input, meter)
    for (const { amount, budget, counter } of ruling.spends ?? []) {
      const kept = compactUse(budget, uses.get(counter) ?? [], now)
      uses.set(counter, appendEntries(kept, [{ at: timeOf(kept, now), steps: 1, amount }]), kept.length + 1)
    }
    const approval = approval_id === null ? null : { outcome, decision_source }
    // Rules that ask leave the step to the grant or the counter-proposal that allowed it.
    const asks = ruling.effect === "require_approval"
    const isAllowedBefore = step.was_allowed_before && asks
    // For rules with a reviewer, the recorded decision of the model counts: a test does not ask it again.
    const isLeftToModel = step.was_decided_by_model && asks && ruling.reviewer !== undefined
    const effect = isLeftToModel ? recordedEffect(step.decision) : isAllowedBefore ? "allow" : ruling.effect
    const finding = tally.add({ decision: step.decision, approval }, { effect })
    if (finding === undefined || approval_id === null || listed[finding] >= MAX_LISTED_STEPS) return undefined
    listed[finding]++
    return {
      ...{ type: "step", finding, approval_id, session_id, step_id, task_id, tool, action_class },
      ...{ requested_at, decided_at, comment },
      decided_by: actorOf(decided_by_id, decided_by_name),
      rule_index: rules.findIndex(({ id }) => id === ruling.rule_id),
      reason: ruling.reason
    }
  }

  return {
    /** Evaluates the steps of a page in slices, each in a turn of its own, and returns the lines to send. */
    evaluate: Effect.fnUntraced(function* (steps: ReadonlyArray<StepOfPage>) {
      const lines: Array<RuleTestLine> = []
      let end = 0
      for (const step of steps) {
        const isRead = step.arguments !== null || !step.has_arguments || !compiled.readsArguments
        const text = isRead ? step.arguments : yield* readArguments(step)
        if (!isRead || performance.now() >= end) {
          yield* turn
          end = performance.now() + SLICE_MILLIS
        }
        const line = evaluateStep(step, text)
        if (line !== undefined) lines.push(line)
      }
      const last = steps.at(-1)
      if (last !== undefined && ++pages % PROGRESS_PAGES === 0)
        lines.push({ type: "progress", steps: tally.steps(), reached: last.requested_at })
      return lines
    }),
    result: (window: { readonly since: Timestamp; readonly until: Timestamp }) =>
      tally.result({ ...window, warnings: [...findRuleWarnings(rules), ...numbers.warnings()] })
  }
}
