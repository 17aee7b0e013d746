import { Schema } from "effect"
import { ReleaseId } from "../Ids.ts"
import { timestamp } from "../Time.ts"
import { ReleaseFeedback } from "./FeedbackQuality.ts"
import { Release } from "./Task.ts"

export const CanaryShare = Schema.Finite.check(
  Schema.isBetween({ minimum: 0.001, maximum: 0.99 }, { expected: "a share from 0.001 to 0.99" })
)

export const CanaryArm = Schema.Struct({
  release_id: ReleaseId.annotateKey({ description: "The release." }),
  positive: ReleaseFeedback.fields.positive,
  neutral: ReleaseFeedback.fields.neutral,
  negative: ReleaseFeedback.fields.negative,
  score_mean: ReleaseFeedback.fields.score_mean,
  positive_share: ReleaseFeedback.fields.positive_share
}).annotate({
  identifier: "CanaryArm",
  description: "Feedback on the runs of one release, since the day on which the canary started."
})
export type CanaryArm = typeof CanaryArm.Type

export const Canary = Schema.Struct({
  release: Release.annotateKey({
    description: "The release that answers a share of the runs. It is not live."
  }),
  share: CanaryShare.annotateKey({ description: "Share of the runs that it answers, 0.001 to 0.99." }),
  started_at: timestamp("When it started."),
  canary: CanaryArm.annotateKey({ description: "Feedback on its runs." }),
  live: CanaryArm.annotateKey({ description: "Feedback on the runs of the live release." }),
  difference: Schema.NullOr(
    Schema.Struct({
      value: Schema.Finite.annotateKey({ description: "The difference, -1 to 1." }),
      low: Schema.Finite.annotateKey({ description: "Lower bound." }),
      high: Schema.Finite.annotateKey({ description: "Upper bound." }),
      always_low: Schema.Finite.annotateKey({ description: "Lower bound that holds at all looks together." }),
      always_high: Schema.Finite.annotateKey({ description: "Upper bound that holds at all looks together." })
    })
  ).annotateKey({
    description:
      "The canary's share of positive feedback minus the live release's, with its 95 % confidence interval (Newcombe's method 10 for independent shares). It holds for one look at a number of feedback that was fixed before. Who looks often and stops at the first interval above 0 is wrong far more often than 5 %. Then use `always_low` and `always_high`, which are wider (mixture sequential probability ratio test): if they lie wholly above 0, the canary is better, whenever that is seen. Null until both have feedback."
  })
}).annotate({
  identifier: "Canary",
  description: "A release that answers a share of a task's runs, to be promoted or stopped."
})
export type Canary = typeof Canary.Type
