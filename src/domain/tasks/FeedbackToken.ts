import { Schema } from "effect"
import { FeedbackTokenId, KeyId, OrgId, TraceId } from "../Ids.ts"
import { EndUser } from "./EndUser.ts"
import { ScoreLabel } from "./Feedback.ts"

/** Shortest and longest life of a feedback token, and the default, in seconds. */
export const MIN_TOKEN_SECONDS = 60
export const MAX_TOKEN_SECONDS = 24 * 60 * 60
export const DEFAULT_TOKEN_SECONDS = 60 * 60

/** The most feedback that can be given with one token, and the default. */
export const MAX_TOKEN_USES = 20
export const DEFAULT_TOKEN_USES = 3

/** The most labels that a token allows. */
export const MAX_TOKEN_LABELS = 16

/** The most feedback that can be given on one run with all of its tokens. */
export const MAX_RUN_USES = 100

/**
 * The claims of a feedback token. Its holder can read it, so it has ids, which are random, and nothing of the run's content.
 *
 * A token ends at its expiry, with its last use, with the API key that created it, with its run, and with the master key
 * that signed it.
 */
export const FeedbackToken = Schema.Struct({
  id: FeedbackTokenId,
  org_id: OrgId,
  /** The API key that created it. */
  key_id: KeyId,
  /** The only run that it gives feedback on. */
  trace_id: TraceId,
  /** Seconds since the Unix epoch. */
  expires_at: Schema.Int,
  max_uses: Schema.Int,
  /** The labels that feedback can have. */
  labels: Schema.Array(ScoreLabel),
  /** The pseudonym of the end user that it was created for. */
  end_user: Schema.NullOr(EndUser)
})
export type FeedbackToken = typeof FeedbackToken.Type
