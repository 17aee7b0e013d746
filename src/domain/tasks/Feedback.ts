import { Schema } from "effect"
import { documentedEnum } from "../documentedEnum.ts"
import { JsonObject } from "./Dataset.ts"
import { DatasetId, FeedbackId, TaskId, TraceId } from "../Ids.ts"
import { Actor } from "../identity/Principal.ts"
import { RunOrigin } from "./Run.ts"
import { timestamp, Timestamp } from "../Time.ts"

export const Score = Schema.Literals([1, 0, -1]).annotate({
  description: "- `1`: the answer is right.\n- `0`: neutral.\n- `-1`: the answer is wrong."
})
export type Score = typeof Score.Type

export const FeedbackStatus = documentedEnum({
  recorded: "It has a score but no correction. Final.",
  pending: "Its correction waits for review.",
  staged: "Its correction was accepted for the next promotion.",
  rejected: "Its correction was refused. Final.",
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
  correction: Schema.NullOr(JsonObject).annotateKey({
    description: "The right answer, after redaction of secrets. Null if none was given."
  }),
  status: FeedbackStatus.annotateKey({ description: "The feedback's status." }),
  redaction_warning: Schema.optionalKey(Schema.String).annotateKey({
    description:
      "Names the fields of the correction that a secret was removed from. Absent if nothing was removed."
  }),
  created_at: timestamp("When the feedback was given."),
  created_by: Actor.annotateKey({ description: "The API key that gave the feedback." }),
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
