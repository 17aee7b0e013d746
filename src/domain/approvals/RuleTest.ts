import { Schema } from "effect"
import type { StepDecision } from "./AgentSession.ts"
import type { ApprovalOutcome, DecisionSource } from "./Approval.ts"
import { RuleEffect, type Ruling } from "./ApprovalRule.ts"
import { type RuleWarning, RuleWarnings } from "./ruleWarnings.ts"
import { documented } from "../documented.ts"
import { documentedEnum } from "../documentedEnum.ts"
import { ApprovalId, SessionId, StepId, TaskId } from "../Ids.ts"
import { Actor } from "../identity/Principal.ts"
import { timestamp, Timestamp } from "../Time.ts"

/** Most steps that a test of rules lists for each finding. All are counted. */
export const MAX_LISTED_STEPS = 1_000

export const RuleTestFinding = documentedEnum({
  rejected_would_run: "A person rejected the step, and the tested rules allow it without asking.",
  approved_would_be_rejected: "A person approved the step, and the tested rules reject it."
})
export type RuleTestFinding = typeof RuleTestFinding.Type

const count = (description: string) => Schema.Int.annotateKey({ description })

export const RuleEffectCounts = Schema.Struct({
  allow: count("Steps that are allowed without asking a person."),
  reject: count("Steps that are rejected without asking a person."),
  require_approval: count("Steps that wait for a person.")
}).annotate({ identifier: "RuleEffectCounts", description: "A number of steps by the effect of rules." })
export type RuleEffectCounts = typeof RuleEffectCounts.Type

/** The members by which a list shows a step that rules were tried on. */
export const judgedStep = {
  session_id: SessionId.annotateKey({ description: "The session of the step." }),
  step_id: StepId.annotateKey({ description: "The step." }),
  task_id: Schema.NullOr(TaskId).annotateKey({ description: "The task of the step. Null if it has none." }),
  tool: Schema.String.annotateKey({ description: "The tool of the step." }),
  action_class: Schema.String.annotateKey({ description: "The action class of the step." }),
  requested_at: timestamp("When the agent submitted the step.")
}

export const RuleTestStep = Schema.Struct({
  type: Schema.Literal("step").annotateKey({ description: "Always `step`." }),
  finding: RuleTestFinding.annotateKey({ description: "How the tested rules differ from the person." }),
  approval_id: ApprovalId.annotateKey({ description: "The approval with the person's decision." }),
  ...judgedStep,
  decided_at: Schema.NullOr(Timestamp).annotateKey({ description: "When the person decided." }),
  decided_by: Schema.NullOr(Actor).annotateKey({ description: "The API key that decided." }),
  comment: Schema.NullOr(Schema.String).annotateKey({
    description: "The comment given with the decision. Null if there is none."
  }),
  rule_index: Schema.Int.annotateKey({
    description: "Position in `rules`, from 0, of the tested rule that matches the step."
  }),
  reason: Schema.String.annotateKey({ description: "The reason that the tested rules give." })
}).annotate({ identifier: "RuleTestStep", description: "A step about which a person decided otherwise." })
export type RuleTestStep = typeof RuleTestStep.Type

export const RuleTestProgress = Schema.Struct({
  type: Schema.Literal("progress").annotateKey({ description: "Always `progress`." }),
  steps: count("Steps that were evaluated until now."),
  reached: timestamp(
    "When the last one of them was submitted. Steps are evaluated newest first, or oldest first if a rule has budgets."
  )
}).annotate({ identifier: "RuleTestProgress", description: "How far a test of rules has come." })
export type RuleTestProgress = typeof RuleTestProgress.Type

export const RuleTestResult = Schema.Struct({
  type: Schema.Literal("result").annotateKey({ description: "Always `result`." }),
  since: timestamp("Start of the window."),
  until: timestamp("End of the window."),
  steps: count("Steps that were submitted in the window."),
  recorded: RuleEffectCounts.annotateKey({ description: "Their first decisions, as recorded." }),
  tested: RuleEffectCounts.annotateKey({ description: "Their decisions by the tested rules." }),
  changes: Schema.Array(
    Schema.Struct({
      recorded: RuleEffect.annotateKey({ description: "The recorded first decision." }),
      tested: RuleEffect.annotateKey({ description: "The decision by the tested rules." }),
      steps: count("How many steps have both.")
    })
  )
    .check(documented({ maxItems: 6 }))
    .annotateKey({ description: "The steps whose decision differs, by both decisions." }),
  more_questions: count("Steps about which a person would be asked who was not asked."),
  fewer_questions: count("Steps about which a person was asked who would not be asked."),
  approvals: Schema.Struct({
    approved: count("A person approved them."),
    rejected: count("A person rejected them."),
    timed_out: count("The last window ended without a decision."),
    session_closed: count("Their session was closed before a decision."),
    other: count("They were closed by something else than these."),
    pending: count("They wait for a decision.")
  }).annotateKey({ description: "What became of the questions that were asked, as recorded." }),
  same_as_person: count("Questions that the tested rules answer like the person who was asked."),
  rejected_would_run: count("Steps that a person rejected and that the tested rules allow."),
  approved_would_be_rejected: count("Steps that a person approved and that the tested rules reject."),
  unlisted: count(
    `How many of the last two are not listed, because at most ${MAX_LISTED_STEPS.toLocaleString("en-US")} of each are.`
  ),
  warnings: RuleWarnings
}).annotate({ identifier: "RuleTestResult", description: "The result of a test of rules. The last line." })
export type RuleTestResult = typeof RuleTestResult.Type

/** A line of the response to a test of rules. */
export const RuleTestReport = Schema.Struct({
  steps: Schema.Array(RuleTestStep)
    .check(documented({ maxItems: 2 * MAX_LISTED_STEPS }))
    .annotateKey({
      description:
        "The steps about which a person decided otherwise, newest first, or oldest first if a rule has budgets."
    }),
  result: RuleTestResult.annotateKey({ description: "The totals." })
}).annotate({ identifier: "RuleTestReport", description: "A test of rules as one JSON body." })

export const RuleTestLine = Schema.Union([RuleTestStep, RuleTestProgress, RuleTestResult]).annotate({
  identifier: "RuleTestLine",
  description: "A line of a test of rules, by its `type`."
})
export type RuleTestLine = typeof RuleTestLine.Type

/** The record of a step. */
export interface RecordedStep {
  /** The first decision. */
  readonly decision: StepDecision
  /** The answer to the question; null if the rules decided without asking. */
  readonly approval: {
    readonly outcome: ApprovalOutcome | null
    readonly decision_source: DecisionSource | null
  } | null
}

/** The effect that led to a first decision. */
export const recordedEffect = (decision: StepDecision): RuleEffect =>
  decision === "pending" ? "require_approval" : decision

/** The answer to a question. Only a person's decision can differ from the rules: a time-out and the end of a session decide nothing. */
const fateOf = ({ approval }: RecordedStep): keyof RuleTestResult["approvals"] | undefined => {
  if (approval === null) return undefined
  if (approval.outcome === null) return "pending"
  switch (approval.decision_source) {
    case "human":
      return approval.outcome === "allow" ? "approved" : "rejected"
    case "timeout":
      return "timed_out"
    case "session_closed":
      return "session_closed"
    default:
      return "other"
  }
}

/** Counts the steps of a test of rules. */
export interface RuleTestTally {
  /** Counts a step and returns the finding to list. */
  readonly add: (step: RecordedStep, ruling: Pick<Ruling, "effect">) => RuleTestFinding | undefined
  /** The steps counted until now. */
  readonly steps: () => number
  readonly result: (of: {
    readonly since: Timestamp
    readonly until: Timestamp
    readonly warnings: ReadonlyArray<RuleWarning>
  }) => RuleTestResult
}

/** Starts counting. */
export const makeRuleTestTally = (): RuleTestTally => {
  const effects = RuleEffect.literals
  const pairs = effects.flatMap((recorded) => effects.map((tested) => ({ recorded, tested, steps: 0 })))
  const approvals = { approved: 0, rejected: 0, timed_out: 0, session_closed: 0, other: 0, pending: 0 }
  const findings = { rejected_would_run: 0, approved_would_be_rejected: 0 }
  let same_as_person = 0
  let steps = 0
  const sum = (matches: (pair: (typeof pairs)[number]) => boolean): number =>
    pairs.reduce((total, pair) => (matches(pair) ? total + pair.steps : total), 0)
  const countsOf = (side: "recorded" | "tested") => ({
    allow: sum((pair) => pair[side] === "allow"),
    reject: sum((pair) => pair[side] === "reject"),
    require_approval: sum((pair) => pair[side] === "require_approval")
  })
  return {
    add: (step, { effect }) => {
      steps++
      const recorded = recordedEffect(step.decision)
      const pair = pairs.find((one) => one.recorded === recorded && one.tested === effect)
      if (pair !== undefined) pair.steps++
      const fate = fateOf(step)
      if (fate === undefined) return undefined
      approvals[fate]++
      if (fate !== "approved" && fate !== "rejected") return undefined
      if (effect === "require_approval") return undefined
      if ((effect === "allow") === (fate === "approved")) {
        same_as_person++
        return undefined
      }
      const finding = fate === "rejected" ? "rejected_would_run" : "approved_would_be_rejected"
      findings[finding]++
      return finding
    },
    steps: () => steps,
    result: ({ since, until, warnings }) => ({
      type: "result",
      since,
      until,
      steps,
      recorded: countsOf("recorded"),
      tested: countsOf("tested"),
      changes: pairs.filter((pair) => pair.recorded !== pair.tested && pair.steps > 0),
      more_questions: sum(
        (pair) => pair.recorded !== "require_approval" && pair.tested === "require_approval"
      ),
      fewer_questions: sum(
        (pair) => pair.recorded === "require_approval" && pair.tested !== "require_approval"
      ),
      approvals: { ...approvals },
      same_as_person,
      ...findings,
      unlisted:
        Math.max(0, findings.rejected_would_run - MAX_LISTED_STEPS) +
        Math.max(0, findings.approved_would_be_rejected - MAX_LISTED_STEPS),
      warnings
    })
  }
}
