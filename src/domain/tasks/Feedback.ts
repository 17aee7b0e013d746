import { Schema } from "effect"
import { documentedEnum } from "../documentedEnum.ts"
import { JsonObject } from "./Dataset.ts"
import { DatasetId, FeedbackId, type FeedbackTokenId, type KeyId, TaskId, TraceId } from "../Ids.ts"
import { Actor } from "../identity/Principal.ts"
import { EndUser } from "./EndUser.ts"
import { RunOrigin } from "./Run.ts"
import { timestamp, Timestamp } from "../Time.ts"
import { isVisibleLine } from "../VisibleText.ts"

export const Score = Schema.Literals([1, 0, -1]).annotate({
  description: "- `1`: the answer is right.\n- `0`: neutral.\n- `-1`: the answer is wrong."
})
export type Score = typeof Score.Type

/** A score between the three of `Score`, such as a rating of stars: 5 of 5 is 1, 3 is 0, 1 is -1. */
export const ScoreValue = Schema.Finite.check(
  Schema.isBetween({ minimum: -1, maximum: 1 }, { expected: "a number from -1 to 1" })
)

/** The score nearest to a value: 0.5 is nearest to 1, and -0.5 to -1. */
export const nearestScore = (value: number): Score => (value >= 0.5 ? 1 : value <= -0.5 ? -1 : 0)

/** A category of feedback, such as `too long`. */
export const ScoreLabel = Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(64), isVisibleLine)

/** The most labels that the feedback on the runs of one task can have. */
export const MAX_SCORE_LABELS = 50

export const FeedbackSource = documentedEnum({
  api_key: "A caller with an API key gave it.",
  feedback_token: "An end user gave it, with a feedback token that the API key created."
})
export type FeedbackSource = typeof FeedbackSource.Type

/**
 * The author of an opinion about a run, whose latest one counts: the API key, and the end user if one is given. Of a feedback token it is the
 * end user, or the token if it was made for no certain end user.
 */
export const authorOf = (
  given:
    | { readonly key_id: KeyId; readonly end_user: EndUser | null }
    | { readonly token_id: FeedbackTokenId; readonly end_user: EndUser | null }
): string =>
  "key_id" in given
    ? given.end_user === null
      ? given.key_id
      : `${given.key_id}.${given.end_user}`
    : (given.end_user ?? given.token_id)

export const FeedbackStatus = documentedEnum({
  recorded: "It has a score but no correction. Final.",
  pending: "Its correction waits for review.",
  staged: "Its correction was accepted for the next promotion.",
  rejected: "Its correction was refused. Final.",
  withdrawn: "Its author withdrew it while its correction waited for review or promotion. Final.",
  promoted: "Its correction is an example of `dataset_id`. Final.",
  superseded: "A correction of the same input that was staged later was promoted instead. Final."
})
export type FeedbackStatus = typeof FeedbackStatus.Type

export const FeedbackRecord = Schema.Struct({
  id: FeedbackId.annotateKey({ description: "The feedback's ID." }),
  task_id: TaskId.annotateKey({ description: "The task of the run." }),
  inference_log_id: TraceId.annotateKey({
    description: "The `trace_id` of the run that the feedback is about."
  }),
  score: Score.annotateKey({ description: "How good the answer was." }),
  score_value: Schema.NullOr(ScoreValue).annotateKey({
    description: "How good the answer was, from -1 to 1. Null if only `score` was given."
  }),
  score_label: Schema.NullOr(ScoreLabel).annotateKey({
    description: "The category of the feedback. Null if none was given."
  }),
  comment: Schema.NullOr(Schema.String).annotateKey({
    description: "A remark on the answer, after redaction of secrets. Null if none was given."
  }),
  source: FeedbackSource.annotateKey({ description: "How the feedback was given." }),
  end_user: Schema.NullOr(EndUser).annotateKey({
    description: "The pseudonym of the end user who gave the feedback. Null if it was given without."
  }),
  correction: Schema.NullOr(JsonObject).annotateKey({
    description: "The right answer, after redaction of secrets. Null if none was given."
  }),
  status: FeedbackStatus.annotateKey({ description: "The feedback's status." }),
  current: Schema.Boolean.annotateKey({
    description:
      "Whether it counts: it is its author's latest opinion about the run, and was not withdrawn. The author is the API key with the `end_user`; of a feedback token, the end user alone."
  }),
  withdrawn_at: Schema.NullOr(Timestamp).annotateKey({
    description: "When its author withdrew it. Null unless withdrawn."
  }),
  redaction_warning: Schema.optionalKey(Schema.String).annotateKey({
    description:
      "Names the fields of the correction, or the comment, that a secret was removed from. Absent if nothing was removed."
  }),
  created_at: timestamp("When the feedback was given."),
  created_by: Actor.annotateKey({
    description: "The API key that gave the feedback, or that created the end user's feedback token."
  }),
  reviewed_at: Schema.NullOr(Timestamp).annotateKey({
    description: "When the correction was staged or rejected. Null before."
  }),
  reviewed_by: Schema.NullOr(Actor).annotateKey({
    description: "The API key that staged or rejected the correction. Null before."
  }),
  review_note: Schema.NullOr(Schema.String).annotateKey({
    description: "The reviewer's note to the submitter. Null if there is none."
  }),
  dataset_id: Schema.NullOr(DatasetId).annotateKey({
    description: "The dataset version that the correction was promoted into. Null unless promoted."
  })
}).annotate({
  identifier: "Feedback",
  description: "A score of one run's answer, optionally with a correction, and the correction's review."
})
export type FeedbackRecord = typeof FeedbackRecord.Type

export const FeedbackDetail = Schema.Struct({
  ...FeedbackRecord.fields,
  input: JsonObject.annotateKey({ description: "The input of the run." }),
  answer: Schema.NullOr(JsonObject).annotateKey({ description: "The run's answer. Null if the run failed." }),
  run: RunOrigin.annotateKey({ description: "What answered the run." })
}).annotate({
  identifier: "FeedbackDetail",
  description: "Feedback with the run that it is about, for review."
})
export type FeedbackDetail = typeof FeedbackDetail.Type

export const StagedCorrection = Schema.Struct({
  ...FeedbackRecord.fields,
  input: JsonObject.annotateKey({
    description: "The input of the run: the input of the example that a promotion makes."
  })
}).annotate({
  identifier: "StagedCorrection",
  description: "A staged correction, with the input that it answers."
})
export type StagedCorrection = typeof StagedCorrection.Type

export const SupersededCorrection = Schema.Struct({
  id: FeedbackId.annotateKey({ description: "The feedback whose correction is not promoted." }),
  superseded_by: FeedbackId.annotateKey({
    description: "The feedback whose correction, staged later for the same run, is promoted instead."
  })
}).annotate({
  identifier: "SupersededCorrection",
  description: "A staged correction that another one of the same run, staged later, replaces."
})
export type SupersededCorrection = typeof SupersededCorrection.Type
