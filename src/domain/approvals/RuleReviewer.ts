import { Schema } from "effect"
import { TaskId } from "../Ids.ts"
import { RuleConditions } from "./RuleCondition.ts"

/** The least share of steps that go to people whatever the reviewer has earned: a fall of its quality shows in them alone. */
const MIN_SAMPLE = 0.05

/** The share of steps that go to people by default. */
export const DEFAULT_SAMPLE = 0.1

const share = (minimum: number, maximum: number, ends: { exclusiveMaximum?: boolean } = {}) =>
  Schema.Finite.check(
    Schema.isBetween(
      { minimum, maximum, ...ends },
      {
        expected: `a number from ${minimum} ${ends.exclusiveMaximum === true ? "to less than" : "to"} ${maximum}`
      }
    )
  )

export const RuleReviewer = Schema.Struct({
  task_id: TaskId.annotateKey({ description: "The task of the reviewer model." }),
  min_lower_bound: share(0.5, 1, { exclusiveMaximum: true }).annotateKey({
    description:
      "The least share of answers with which people must agree, 0.5 to less than 1. The lower bound of the 95 % interval must reach it, about the step's tool and band of amounts."
  }),
  max_false_approvals: share(0, 0.5).annotateKey({
    description:
      "The greatest share of the reviewer's approvals that people may reject, less than 1 - `min_lower_bound`. The upper bound of the 95 % interval must not exceed it."
  }),
  sample: share(MIN_SAMPLE, 1).annotateKey({
    description: `The share of steps that go to people at random, ${MIN_SAMPLE} to 1. They look like any other to people. Default ${DEFAULT_SAMPLE}.`
  }),
  never: RuleConditions.annotateKey({
    description:
      "Conditions on the step's arguments, at most 20: a step for which one of them holds, or cannot be judged, goes to people. Default: none."
  })
}).annotate({
  identifier: "RuleReviewer",
  description:
    "Lets a reviewer model decide steps of the rule while it has earned it. Steps that it does not decide wait for a person as without it."
})
export type RuleReviewer = typeof RuleReviewer.Type

/** The members that may be left out, with the values that they then have. */
export const defaultRuleReviewer: Pick<RuleReviewer, "never" | "sample"> = {
  sample: DEFAULT_SAMPLE,
  never: []
}

/** A share in percent: `95 %`, `0.5 %`. */
const percent = (value: number): string => `${Number((value * 100).toFixed(2))} %`

/** A reviewer in words, without its name. */
export const describeRuleReviewer = ({
  max_false_approvals,
  min_lower_bound,
  sample
}: RuleReviewer): string =>
  `while people agree with at least ${percent(min_lower_bound)} and reject at most ${percent(max_false_approvals)} of its approvals; ${percent(sample)} go to people at random`
