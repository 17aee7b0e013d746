import { Result } from "effect"
import {
  type ApprovalRule,
  DEFAULT_REVIEW_SECONDS,
  type RuleInput,
  type RuleTarget,
  type Ruling
} from "./ApprovalRule.ts"
import type { RuleId } from "../Ids.ts"
import { type BudgetMeter, fitsBudgets, type CompiledBudget, compileBudget } from "./BudgetMeter.ts"
import {
  compileCondition,
  costRank,
  EvaluationBudget,
  type Judge,
  type Judgement,
  type Unjudged
} from "./CompiledRules/compileCondition.ts"
import { compileTextPattern } from "./CompiledRules/compileTextPattern.ts"
import {
  defaultReasons,
  explainMatch,
  explainMisfit,
  explainNotAllowed,
  explainUnjudged
} from "./CompiledRules/explain.ts"
import {
  makePatternCompiler,
  type PatternCompiler,
  type PatternFault
} from "./CompiledRules/makePatternCompiler.ts"
import { pointerSegments, type Resolved, resolvePointer } from "./CompiledRules/resolvePointer.ts"
import { DEFAULT_QUORUM, uniteQuorums } from "./Quorum.ts"
import { stricterRequirement } from "./Approval.ts"
import type { RuleCondition } from "./RuleCondition.ts"
import { parseSummaryTemplate } from "./SummaryTemplate.ts"
import { countConditions, type ExceededLimit } from "./ruleLimits.ts"

/**
 * An ordered list of rules, compiled once for many steps.
 *
 * The first rule that matches decides. A rule matches if its patterns match and all its conditions hold; it does not match if one of them
 * does not hold. A condition that cannot be judged, because its value is missing or has another type, fails towards asking:
 *
 * - a rule that allows does not match;
 * - a rule that rejects or requires approval makes the step wait for a person. Without a decision in time, the step is rejected. It waits for
 *   all approvals that it and the rules that could match instead ask for.
 *
 * So no value of another type than expected turns a rejection or a question into an `allow`, or a question to some people into one to fewer
 * or to others.
 */
export interface CompiledRules {
  /** Whether a rule has conditions or budgets of values. Without one, arguments make no difference. */
  readonly readsArguments: boolean
  /** Whether a rule has budgets. Without one, the order and the number of steps make no difference. */
  readonly hasBudgets: boolean
  /** Memory in units of about 1 kB, for caches. */
  readonly weight: number
  /** Invalid patterns, each with its place. Their conditions cannot be judged. */
  readonly faults: ReadonlyArray<PatternFault>
  /** The first limit on patterns that the list exceeds. */
  readonly exceeded: ExceededLimit | undefined
  /** Evaluates the list for a step. `meter` judges whether the step fits budgets. */
  readonly evaluate: (step: RuleInput, meter: BudgetMeter) => Ruling
  /**
   * Whether the rule that decided a step allows another claim after an attempt whose outcome is unknown. False if the rule has left the list, or
   * does not match the step: it may have been changed since.
   */
  readonly retriesUnknown: (rule_id: RuleId | null, step: RuleInput) => boolean
}

/** A condition. Its value is shared with conditions of the same pointer, its judgement with equal conditions of other rules. */
interface CompiledCondition {
  readonly condition: RuleCondition
  readonly judge: Judge
  /** Number of its pointer among the different pointers of the list. */
  readonly pointer: number
  /** Number among the conditions that several rules have; -1: only one has it. */
  shared: number
}

interface CompiledRule {
  readonly rule: ApprovalRule
  readonly ruling: Ruling
  /** The ruling with the reviewer model, for steps that no condition of `never` can match; undefined: the rule has none. */
  readonly reviewed: Ruling | undefined
  readonly never: ReadonlyArray<CompiledCondition>
  readonly matchesTool: (text: string) => boolean
  readonly matchesClass: (text: string) => boolean
  readonly conditions: ReadonlyArray<CompiledCondition>
  readonly budgets: ReadonlyArray<CompiledBudget>
}

/** Compiles a list. One with many patterns takes up to some hundred milliseconds. */
export const compileRules = (rules: ReadonlyArray<ApprovalRule>): CompiledRules => {
  const steps = compileRulesInSteps(rules)
  for (;;) {
    const step = steps.next()
    if (step.done === true) return step.value
  }
}

/** Compiles a list, and yields after each pattern, so that the caller can pause. */
export function* compileRulesInSteps(rules: ReadonlyArray<ApprovalRule>): Generator<void, CompiledRules> {
  const patterns = makePatternCompiler()
  for (const [index, { reviewer, when }] of rules.entries()) {
    yield* compilePatterns(when, `#/rules/${index}/when`, patterns)
    if (reviewer !== null) yield* compilePatterns(reviewer.never, `#/rules/${index}/reviewer/never`, patterns)
  }
  return compileList(rules, patterns)
}

/** Compiles the patterns of conditions, including conditions on elements. The conditions find them compiled. */
function* compilePatterns(
  conditions: ReadonlyArray<RuleCondition>,
  at: string,
  patterns: PatternCompiler
): Generator<void, void> {
  for (const [index, condition] of conditions.entries()) {
    switch (condition.op) {
      case "matches":
      case "not_matches":
        patterns.compile(condition.value, `${at}/${index}/value`)
        yield
        break
      case "every":
      case "some":
        yield* compilePatterns(condition.value, `${at}/${index}/value`, patterns)
        break
      default:
    }
  }
}

const compileList = (rules: ReadonlyArray<ApprovalRule>, patterns: PatternCompiler): CompiledRules => {
  const pointers = new Map<string, number>()
  const conditions = new Map<string, CompiledCondition>()
  let shared = 0

  /** Equal conditions are one: many rules of a list ask the same about a step. */
  const compileOnce = (condition: RuleCondition, at: string): CompiledCondition => {
    const key = JSON.stringify(condition)
    const known = conditions.get(key)
    if (known !== undefined) {
      if (known.shared < 0) known.shared = shared++
      return known
    }
    const pointer = pointers.get(condition.pointer) ?? pointers.size
    pointers.set(condition.pointer, pointer)
    const compiled = { condition, judge: compileCondition(condition, at, patterns), pointer, shared: -1 }
    conditions.set(key, compiled)
    return compiled
  }

  const compiled = rules.map((rule, index): CompiledRule => ({
    rule,
    ruling: rulingOf(rule),
    reviewed: rule.reviewer === null ? undefined : { ...rulingOf(rule), reviewer: rule.reviewer },
    never: (rule.reviewer?.never ?? []).map((condition, at) =>
      compileOnce(condition, `#/rules/${index}/reviewer/never/${at}`)
    ),
    matchesTool: compileTextPattern(rule.tool),
    matchesClass: compileTextPattern(rule.action_class),
    // Cheap conditions first: the first one that does not hold ends the evaluation of a rule.
    conditions: rule.when
      .map((condition, at) => compileOnce(condition, `#/rules/${index}/when/${at}`))
      .toSorted((left, right) => costRank(left.condition) - costRank(right.condition)),
    budgets: rule.budgets.map(compileBudget)
  }))
  const segments = [...pointers.keys()].map(pointerSegments)
  const templates = rules.filter(({ summary_template }) => summary_template !== null).length
  const total = rules.reduce(
    (sum, { budgets, reviewer, when }) =>
      sum + countConditions(when) + budgets.length + countConditions(reviewer?.never ?? []),
    0
  )
  return {
    readsArguments:
      conditions.size > 0 ||
      rules.some(({ budgets }) => budgets.some(({ by, sum }) => sum !== null || by.length > 0)),
    hasBudgets: rules.some(({ budgets }) => budgets.length > 0),
    weight: Math.max(1, rules.length + templates + Math.ceil(total / 2 + patterns.size() / 10)),
    faults: patterns.faults,
    exceeded: patterns.exceeded(),
    evaluate: (step, meter) => evaluate(compiled, segments, step, meter),
    retriesUnknown: (rule_id, step) =>
      compiled.some(
        (one) =>
          one.rule.id === rule_id &&
          one.rule.retry_unknown &&
          isAbout(one, step) &&
          decisiveCondition(one.conditions, stepArgumentsOf(segments, step)) === undefined
      )
  }
}

/** The findings about the arguments of one step: each value is looked up, and each shared condition judged, once and when it is needed. */
interface StepArguments {
  readonly root: RuleInput["arguments"]
  readonly segments: ReadonlyArray<ReadonlyArray<string>>
  readonly values: Array<Resolved>
  /** 1 for each pointer whose value was looked up. */
  readonly isResolved: Uint8Array
  readonly judgements: Array<Judgement | undefined>
  readonly budget: EvaluationBudget
}

const stepArgumentsOf = (segments: ReadonlyArray<ReadonlyArray<string>>, step: RuleInput): StepArguments => ({
  root: step.arguments,
  segments,
  values: [],
  isResolved: new Uint8Array(segments.length),
  judgements: [],
  budget: new EvaluationBudget()
})

const judgeCondition = (one: CompiledCondition, known: StepArguments): Judgement => {
  const { pointer, shared } = one
  if (shared >= 0) {
    const judgement = known.judgements[shared]
    if (judgement !== undefined) return judgement
  }
  let value: Resolved
  if (known.isResolved[pointer] === 1) {
    value = known.values[pointer]
  } else {
    value = resolvePointer(known.root, known.segments[pointer] ?? [])
    known.values[pointer] = value
    known.isResolved[pointer] = 1
  }
  const judgement = one.judge(value, known.budget)
  if (shared >= 0) known.judgements[shared] = judgement
  return judgement
}

const evaluate = (
  rules: ReadonlyArray<CompiledRule>,
  segments: ReadonlyArray<ReadonlyArray<string>>,
  step: RuleInput,
  meter: BudgetMeter
): Ruling => {
  let stepArguments: StepArguments | undefined
  const readArguments = (): StepArguments => (stepArguments ??= stepArgumentsOf(segments, step))
  let notAllowed: string | undefined
  /** Why the step does not fit a budget, which tells more than a condition that does not hold. */
  let overBudget: string | undefined
  /** The question of the first rule that rejects or asks and could not be judged. */
  let question: Ruling | undefined
  let number = 0
  for (const candidate of rules) {
    number += 1
    const { never, reviewed, rule } = candidate
    let { ruling } = candidate
    if (!isAbout(candidate, step)) continue
    let decisive: ReturnType<typeof decisiveCondition>
    if (candidate.conditions.length > 0) decisive = decisiveCondition(candidate.conditions, readArguments())
    if (decisive?.judgement === "fails") {
      if (rule.effect === "allow") notAllowed ??= explainNotAllowed({ number, ...decisive }, "fails")
      continue
    }
    if (question !== undefined) {
      // A rule that rejects asks people only if it cannot be judged either.
      const asks = rule.effect === "require_approval" || (rule.effect === "reject" && decisive !== undefined)
      if (asks) question = withApprovalsOf(question, ruling)
      // A rule with budgets may not match: nothing is counted for a step that asks.
      if (decisive === undefined && candidate.budgets.length === 0) return question
    } else if (decisive === undefined) {
      // A condition that cannot be judged may hold.
      if (reviewed !== undefined && never.every((one) => judgeCondition(one, readArguments()) === "fails"))
        ruling = reviewed
      let spends: Ruling["spends"]
      if (candidate.budgets.length > 0) {
        const judged = meter.judge(rule.id, candidate.budgets, step.arguments)
        if (judged.misfit !== undefined) {
          overBudget ??= explainMisfit(number, judged.misfit)
          continue
        }
        spends = judged.spends
      }
      const note = overBudget ?? notAllowed
      const hasNote = note !== undefined && rule.effect !== "allow"
      const allowed = spends === undefined ? ruling : { ...ruling, spends }
      if (candidate.conditions.length === 0 && !hasNote) return allowed
      const reason = `${ruling.reason} ${explainMatch(number, rule.when)}`
      return withNote({ ...allowed, reason }, note)
    } else if (rule.effect === "allow") {
      notAllowed ??= explainNotAllowed({ number, condition: decisive.condition }, decisive.judgement)
    } else {
      question = unjudgedRuling(
        candidate,
        explainUnjudged({ number, condition: decisive.condition }, decisive.judgement)
      )
    }
  }
  return question ?? withNote(builtInRuling, overBudget ?? notAllowed)
}

/** Whether a rule matches a step but for its conditions and budgets. */
const isAbout = ({ matchesClass, matchesTool, rule }: CompiledRule, step: RuleTarget): boolean =>
  (rule.task_id === null || rule.task_id === step.task_id) &&
  matchesTool(step.tool) &&
  matchesClass(step.action_class)

/** The question, which also needs the approvals that another rule asks for, because that one could match instead: by admins only if both do. */
const withApprovalsOf = (question: Ruling, { terms }: Ruling): Ruling => {
  const { escalation_seconds, quorum, require_comment, review_seconds } = question.terms
  return {
    ...question,
    terms: {
      ...question.terms,
      quorum: uniteQuorums(quorum, terms.quorum),
      require_comment: stricterRequirement(require_comment, terms.require_comment),
      review_seconds: Math.max(review_seconds, terms.review_seconds),
      escalation_seconds:
        escalation_seconds === null || terms.escalation_seconds === null
          ? null
          : Math.max(escalation_seconds, terms.escalation_seconds)
    }
  }
}

/**
 * The condition that keeps a rule from matching; undefined if all hold. A condition that does not hold decides, even if another cannot be
 * judged: so a condition `exists` makes another one on an optional argument safe.
 */
const decisiveCondition = (conditions: ReadonlyArray<CompiledCondition>, stepArguments: StepArguments) => {
  let unjudged: { readonly condition: RuleCondition; readonly judgement: Unjudged } | undefined
  for (const one of conditions) {
    const judgement = judgeCondition(one, stepArguments)
    if (judgement === "holds") continue
    if (judgement === "fails") return { condition: one.condition, judgement }
    unjudged ??= { condition: one.condition, judgement }
  }
  return unjudged
}

/** A question that names the rule which would have rejected or asked. Neither time, nor the requester, nor a grant may allow the step. */
const unjudgedRuling = ({ rule, ruling }: CompiledRule, explanation: string): Ruling => ({
  ...ruling,
  effect: "require_approval",
  reason: `${rule.reason === "" ? defaultReasons.require_approval : rule.reason} ${explanation}`,
  terms: { ...ruling.terms, timeout_action: "reject", self_approval: false },
  unjudged: true
})

/** Adds why no earlier rule allowed the step. */
const withNote = (ruling: Ruling, note: string | undefined): Ruling =>
  note === undefined || ruling.effect === "allow" ? ruling : { ...ruling, reason: `${ruling.reason} ${note}` }

const rulingOf = (rule: ApprovalRule): Ruling => ({
  rule_id: rule.id,
  effect: rule.effect,
  reason: rule.reason === "" ? defaultReasons[rule.effect] : rule.reason,
  terms: {
    review_seconds: rule.review_seconds,
    expiring_seconds: rule.expiring_seconds,
    escalation_seconds: rule.escalation_seconds,
    timeout_action: rule.timeout_action,
    self_approval: rule.self_approval,
    quorum: rule.quorum,
    require_comment: rule.require_comment
  },
  ...summaryOf(rule)
})

/** The parsed template. One that does not parse was not stored by this service, and is left out. */
const summaryOf = ({ summary_template }: ApprovalRule): Pick<Ruling, "summary"> => {
  const parsed = summary_template === null ? undefined : parseSummaryTemplate(summary_template)
  return parsed !== undefined && Result.isSuccess(parsed) ? { summary: parsed.success } : {}
}

const builtInRuling: Ruling = {
  rule_id: null,
  effect: "require_approval",
  reason: "No rule matches; a person must approve",
  terms: {
    review_seconds: DEFAULT_REVIEW_SECONDS,
    expiring_seconds: null,
    escalation_seconds: null,
    timeout_action: "reject",
    self_approval: false,
    quorum: DEFAULT_QUORUM,
    require_comment: "never"
  }
}

/** Evaluates a list for one step that fits every budget. For many steps, compile it once. */
export const evaluateRules = (rules: ReadonlyArray<ApprovalRule>, step: RuleInput): Ruling =>
  compileRules(rules).evaluate(step, fitsBudgets)
