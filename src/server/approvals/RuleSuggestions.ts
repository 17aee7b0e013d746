import { Context, DateTime, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import {
  DEFAULT_MAX_ERROR,
  MAX_LISTED_EXCEPTIONS,
  MAX_SAMPLED_BYTES,
  MAX_SAMPLED_DECISIONS,
  type RuleSuggestion,
  type RuleSuggestions as Suggested,
  type SuggestionQuery
} from "../../api/ApprovalRules.ts"
import { Authorized } from "../../api/Authorization.ts"
import type { CompiledRules } from "../../domain/approvals/CompiledRules.ts"
import { selectRead, type TimedDecision } from "../../domain/approvals/readingTime.ts"
import {
  type StepVerdict,
  type SuggestedRule,
  suggestRules,
  valuesOf
} from "../../domain/approvals/suggestRules.ts"
import { fitsBudgets } from "../../domain/approvals/BudgetMeter.ts"
import type { ApprovalId, KeyId, OrgId } from "../../domain/Ids.ts"
import type { Timestamp } from "../../domain/Time.ts"
import { nextTurn } from "../admission/LoopTurns.ts"
import { Rules } from "./Rules.ts"
import { type DecidedStep, readDecisions } from "./RuleSuggestions/readDecisions.ts"
import { parseArguments } from "./parseArguments.ts"

/** Decisions that are evaluated in one turn at the event loop. */
const SLICE_DECISIONS = 25

/** Suggests rules from people's decisions. */
export class RuleSuggestions extends Context.Service<
  RuleSuggestions,
  {
    /** Suggests rules for the steps that the current rules ask about, from the newest decisions. */
    readonly suggest: (
      query: SuggestionQuery
    ) => Effect.Effect<Suggested, never, Authorized<"approvals.read">>
  }
>()("countersign/server/approvals/RuleSuggestions") {
  static readonly layer = Layer.effect(
    RuleSuggestions,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const rules = yield* Rules

      /** Reads the newest decisions page by page and keeps of each only what suggestions need: the arguments of all take megabytes. */
      const sample = Effect.fnUntraced(function* (org_id: OrgId, current: CompiledRules) {
        const sampled: Array<SampledDecision> = []
        let scanned = 0
        let before: ApprovalId | undefined
        for (;;) {
          const { decisions, isLast } = yield* readDecisions(
            sql,
            org_id,
            before,
            MAX_SAMPLED_DECISIONS - scanned
          )
          for (const [index, decision] of decisions.entries()) {
            if (index % SLICE_DECISIONS === 0) yield* nextTurn
            const { decided_by_id, decision_source } = decision
            if (decision_source === "human" && decided_by_id !== null)
              sampled.push(toSample(current, decision, decided_by_id))
          }
          scanned += decisions.length
          before = decisions.at(-1)?.approval_id
          if (isLast || before === undefined || scanned >= MAX_SAMPLED_DECISIONS) return sampled
        }
      }, Effect.orDie)

      return RuleSuggestions.of({
        suggest: Effect.fn("RuleSuggestions.suggest")(function* ({ max_error = DEFAULT_MAX_ERROR }) {
          const { org_id } = yield* Authorized("approvals.read")
          // Reads the current rules, which are then cached, compiled.
          yield* rules.list
          const { compiled, revision } = yield* rules.cached(org_id)
          const sampled = yield* sample(org_id, compiled)
          yield* nextTurn
          const read = selectRead(sampled)
          const asked = sampled.flatMap((one) =>
            read.has(one) && typeof one.verdict !== "string" ? [one.verdict] : []
          )
          const search = suggestRules(asked, max_error)
          let found = search.next()
          while (found.done !== true) {
            yield* nextTurn
            found = search.next()
          }
          const oldest = sampled.at(-1)
          return {
            suggestions: found.value.map(toSuggestion),
            revision,
            looked_at: sampled.length,
            unread: sampled.length - read.size,
            already_decided: sampled.filter(({ verdict }) => verdict === "already_decided").length,
            without_arguments: sampled.filter(({ characters }) => characters > MAX_SAMPLED_BYTES).length,
            oldest_at: oldest === undefined ? null : at(oldest.requested_at)
          }
        })
      })
    })
  )
}

/** A decision, and its part in suggestions. */
interface SampledDecision extends TimedDecision {
  readonly verdict:
    | StepVerdict
    /** The current rules decide the step without asking. */
    | "already_decided"
    /** The current rules have conditions, and the step's arguments are too large to be looked into. */
    | "unknown"
}

const toSample = (current: CompiledRules, decision: DecidedStep, decided_by: KeyId): SampledDecision => {
  const { arguments: text, arguments_bytes, decided_at, outcome, requested_at } = decision
  const args = text === null ? undefined : parseArguments(text)
  const { action_class, task_id, tool } = decision
  const ruling = current.evaluate({ tool, action_class, task_id, arguments: args }, fitsBudgets)
  const timed = {
    requested_at: requested_at.epochMilliseconds,
    decided_at: decided_at.epochMilliseconds,
    decided_by,
    characters: arguments_bytes
  }
  if (current.readsArguments && text === null && arguments_bytes > MAX_SAMPLED_BYTES)
    return { ...timed, verdict: "unknown" }
  if (ruling.effect !== "require_approval") return { ...timed, verdict: "already_decided" }
  return {
    ...timed,
    verdict: {
      approval_id: decision.approval_id,
      tool,
      action_class,
      task_id,
      verdict: outcome,
      decided_by,
      requested_at: timed.requested_at,
      asked_by: ruling.rule_id,
      values: args === undefined ? new Map() : valuesOf(args)
    }
  }
}

const at = (millis: number): Timestamp => DateTime.makeUnsafe(millis)

const toSuggestion = ({
  action_class,
  asked_by,
  condition,
  covered,
  effect,
  error_upper_bound,
  measured,
  task_id,
  tool
}: SuggestedRule): RuleSuggestion => {
  const newestFirst = covered.toSorted((one, other) => other.requested_at - one.requested_at)
  const exceptions = newestFirst.filter(({ verdict }) => verdict !== effect)
  return {
    rule: { tool, action_class, task_id, when: condition === null ? [] : [condition], effect },
    before_rule_id: asked_by,
    decisions: covered.length,
    exceptions: exceptions.length,
    exception_ids: exceptions.slice(0, MAX_LISTED_EXCEPTIONS).map(({ approval_id }) => approval_id),
    measured: measured.length,
    error_upper_bound,
    people: new Set(covered.map(({ decided_by }) => decided_by)).size,
    first_at: at(newestFirst.at(-1)?.requested_at ?? 0),
    last_at: at(newestFirst[0]?.requested_at ?? 0)
  }
}
