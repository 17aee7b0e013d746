import { Schema } from "effect"
import { documentedEnum } from "../documentedEnum.ts"
import { EndUser } from "../tasks/EndUser.ts"
import { DeletionId } from "../Ids.ts"
import { Actor } from "../identity/Principal.ts"
import { Timestamp, timestamp } from "../Time.ts"

export const DeletionKind = documentedEnum({
  task: "A task with everything that belongs to it.",
  dataset: "One version of a dataset.",
  erasure: "The data of a data subject, found by a member of the metadata, or the feedback of an end user."
})
export type DeletionKind = typeof DeletionKind.Type

export const DeletionStatus = documentedEnum({
  running: "A background worker is deleting.",
  completed: "Everything was deleted."
})
export type DeletionStatus = typeof DeletionStatus.Type

/** Numbers of deleted records. */
export const DeletedCounts = Schema.Struct({
  runs: Schema.Int.annotateKey({ description: "Runs of tasks." }),
  feedback: Schema.Int.annotateKey({ description: "Feedback records, with their corrections." }),
  examples: Schema.Int.annotateKey({
    description: "Examples of datasets, deleted or erased from every version."
  }),
  sessions: Schema.Int.annotateKey({
    description: "Agent sessions, with their steps, approvals and events."
  })
}).annotate({ identifier: "DeletedCounts", description: "Numbers of records that were deleted." })
export type DeletedCounts = typeof DeletedCounts.Type

export const Deletion = Schema.Struct({
  id: DeletionId.annotateKey({ description: "The deletion's ID." }),
  kind: DeletionKind.annotateKey({ description: "The kind of the deletion." }),
  target_id: Schema.NullOr(Schema.String).annotateKey({
    description: "The task or dataset version that is deleted. Null for an erasure."
  }),
  metadata_key: Schema.NullOr(Schema.String).annotateKey({
    description:
      "The member of the metadata that names the data subject of an erasure. Null for another kind and for an end user."
  }),
  metadata_digest: Schema.NullOr(Schema.String).annotateKey({
    description:
      'SHA-256, in hex, of the key, `=`, and the value as JSON, such as `customer="acme"`. The value itself is not stored. Null if `metadata_key` is.'
  }),
  end_user: Schema.NullOr(EndUser).annotateKey({
    description:
      "The pseudonym of the end user whose feedback is erased, else null. The ID itself is not stored."
  }),
  status: DeletionStatus.annotateKey({ description: "Whether it is finished." }),
  deleted: DeletedCounts.annotateKey({ description: "The records deleted so far." }),
  created_at: timestamp("When the deletion was requested."),
  created_by: Actor.annotateKey({ description: "The API key that requested it." }),
  finished_at: Schema.NullOr(Timestamp).annotateKey({
    description: "When everything was deleted. Null while it is running."
  })
}).annotate({
  identifier: "Deletion",
  description: "A deletion that a background worker performs in small steps. It continues after a restart."
})
export type Deletion = typeof Deletion.Type
