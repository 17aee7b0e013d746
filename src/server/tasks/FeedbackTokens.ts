import { Context, DateTime, Effect, Layer, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { type Authorized, AuthorizedEither } from "../../api/Authorization.ts"
import { type EndUserFeedback, endUserFeedbackPath } from "../../api/EndUserFeedback.ts"
import type { CreatedFeedbackToken, NewFeedbackToken } from "../../api/Feedback.ts"
import { notFound } from "../../api/notFound.ts"
import { InvalidFeedbackToken, InvalidRequest, LimitReached, type NotFound } from "../../api/Problems.ts"
import { FeedbackId, FeedbackTokenId, type TraceId } from "../../domain/Ids.ts"
import { authorOf, type FeedbackRecord } from "../../domain/tasks/Feedback.ts"
import {
  DEFAULT_TOKEN_SECONDS,
  DEFAULT_TOKEN_USES,
  type FeedbackToken,
  MAX_RUN_USES
} from "../../domain/tasks/FeedbackToken.ts"
import { formatFeedbackToken } from "../../domain/tasks/FeedbackToken/text.ts"
import { rowBytes, StoredUsage } from "../identity/StoredUsage.ts"
import { KnownSecrets } from "../secrets/KnownSecrets.ts"
import { SecretBox } from "../secrets/SecretBox.ts"
import { dieOnDatabaseError } from "../store/databaseErrors.ts"
import { StoreClock } from "../store/StoreClock.ts"
import { transaction } from "../store/transaction.ts"
import { Spans } from "../telemetry/Spans.ts"
import { EndUsers } from "./EndUsers.ts"
import { feedbackLocked, retryWhileLocked } from "./Feedback/makeCreateFeedback.ts"
import { redactComment, scoreOf, warningOf } from "./Feedback/scoreAndComment.ts"
import { recordFeedbackSpan } from "./Feedback/recordFeedbackSpan.ts"
import { insertFeedback } from "./Feedback/insertFeedback.ts"
import {
  countRunUse,
  countTokenUse,
  feedbackDigest,
  findRunAndKey,
  findUsableKey,
  hasRun,
  isNewestFeedback
} from "./FeedbackTokens/rows.ts"
import { ScoreLabels } from "./ScoreLabels.ts"

/** Creates feedback tokens, and stores the feedback that end users send with them. */
export class FeedbackTokens extends Context.Service<
  FeedbackTokens,
  {
    /** Creates a token for one run. Nothing is stored until it is used. */
    readonly create: (
      trace_id: TraceId,
      input: NewFeedbackToken
    ) => Effect.Effect<
      CreatedFeedbackToken,
      NotFound | LimitReached,
      Authorized<"feedback.create" | "feedback.write">
    >
    /**
     * Stores feedback; committed when this returns. The uses of a token and of a run are counted in the transaction that
     * stores it, so they are exact over all replicas. The newest feedback of a token, sent again, is not stored again, so
     * that a browser can repeat a request whose response it did not get. The caller has verified the token and its expiry.
     */
    readonly submit: (
      token: FeedbackToken,
      trace_id: TraceId,
      input: EndUserFeedback
    ) => Effect.Effect<void, InvalidFeedbackToken | InvalidRequest | LimitReached>
  }
>()("countersign/server/tasks/FeedbackTokens") {
  static readonly layer = ({ publicUrl }: { readonly publicUrl: string }) =>
    Layer.effect(
      FeedbackTokens,
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const clock = yield* StoreClock
        const box = yield* SecretBox
        const secrets = yield* KnownSecrets
        const spans = yield* Spans
        const usage = yield* StoredUsage
        const labels = yield* ScoreLabels
        const endUsers = yield* EndUsers
        const base = publicUrl.replace(/\/$/, "")

        return FeedbackTokens.of({
          create: Effect.fn("FeedbackTokens.create")(function* (trace_id, input) {
            const { actor, org_id } = yield* AuthorizedEither("feedback.create", "feedback.write")
            const {
              end_user_id = null,
              expires_in_seconds = DEFAULT_TOKEN_SECONDS,
              max_uses = DEFAULT_TOKEN_USES,
              score_labels = []
            } = input
            const found = yield* findRunAndKey(sql, org_id, trace_id, actor.id)
            if (found === undefined) return yield* notFound("run")
            const allowed = [...new Set(score_labels)]
            for (const label of allowed) yield* labels.require(org_id, found.task_id, label)
            const now = yield* clock.now
            const requested = Math.floor(now.epochMilliseconds / 1000) + expires_in_seconds
            const expires_at =
              found.key_expires_at === null
                ? requested
                : Math.min(requested, Math.floor(found.key_expires_at.epochMilliseconds / 1000))
            const end_user = end_user_id === null ? null : yield* endUsers.pseudonym(org_id, end_user_id)
            const token = formatFeedbackToken(
              {
                id: yield* FeedbackTokenId.generate,
                org_id,
                key_id: actor.id,
                trace_id,
                expires_at,
                max_uses,
                labels: allowed,
                end_user
              },
              (text) => box.sign("feedback-token", text)
            )
            return {
              token: Redacted.value(token),
              url: base + endUserFeedbackPath(trace_id),
              inference_log_id: trace_id,
              expires_at: DateTime.makeUnsafe(expires_at * 1000),
              max_uses,
              end_user
            }
          }, dieOnDatabaseError),
          submit: Effect.fn("FeedbackTokens.submit")(function* (token, trace_id, input) {
            const { org_id } = token
            if (token.trace_id !== trace_id) return yield* refused("This feedback token is for another run.")
            const score = yield* scoreOf(input)
            const score_label = input.score_label ?? null
            if (score_label !== null && !token.labels.includes(score_label)) return yield* labelNotAllowed
            yield* Effect.mapError(usage.requireCapacity(org_id, "feedback"), () => full)
            const { comment, isRedacted } = yield* redactComment(
              input.comment ?? null,
              secrets.forOrg(org_id)
            )
            const now = yield* clock.now
            const id = yield* FeedbackId.generateAt(now)
            const digest = feedbackDigest({ ...score, score_label, comment })

            const author = authorOf({ token_id: token.id, end_user: token.end_user })
            const store = transaction(
              Effect.gen(function* () {
                const key = yield* findUsableKey(sql, token, now)
                if (key === undefined) {
                  return yield* refused(
                    "The API key that created this feedback token was revoked or has expired."
                  )
                }
                if (!(yield* countTokenUse(sql, token, digest))) {
                  if (yield* isNewestFeedback(sql, token, digest)) return
                  return yield* refused("All uses of this feedback token are used up.")
                }
                const run = yield* countRunUse(sql, token, MAX_RUN_USES)
                if (run === undefined) {
                  return yield* (yield* hasRun(sql, token))
                    ? runFull
                    : refused("The run of this feedback token was deleted.")
                }
                const record: FeedbackRecord = {
                  id,
                  task_id: run.task_id,
                  inference_log_id: trace_id,
                  ...score,
                  score_label,
                  comment,
                  source: "feedback_token",
                  end_user: token.end_user,
                  correction: null,
                  status: "recorded",
                  current: true,
                  withdrawn_at: null,
                  ...warningOf(undefined, isRedacted),
                  created_at: now,
                  created_by: { id: token.key_id, name: key.name },
                  reviewed_at: null,
                  reviewed_by: null,
                  review_note: null,
                  dataset_id: null
                }
                const { caller_traceparent, provider_calls, release_id, run_id } = run
                const evaluated = { caller_traceparent, provider_calls }
                const inserted = yield* insertFeedback(
                  sql,
                  [{ org_id, run_id, release_id, record, author, correction: null, evaluated }],
                  org_id
                )
                if (inserted.length === 0) return yield* Effect.fail(feedbackLocked)
                return { record, evaluated }
              })
            )
            const stored = yield* Effect.provideService(retryWhileLocked(store), SqlClient.SqlClient, sql)
            if (stored === undefined) return
            usage.add(org_id, { feedback: 1, bytes: rowBytes.feedback + Buffer.byteLength(comment ?? "") })
            yield* recordFeedbackSpan(spans, org_id, stored.record, author, stored.evaluated)
          }, dieOnDatabaseError)
        })
      })
    )
}

const refused = (detail: string) =>
  Effect.fail(new InvalidFeedbackToken({ detail: `${detail} Ask the server that created it for a new one.` }))

const labelNotAllowed = Effect.fail(
  new InvalidRequest({
    detail: "This feedback token does not allow the label.",
    errors: [{ pointer: "#/score_label", detail: "Expected a label that the token was created with" }]
  })
)

const runFull = Effect.fail(
  new LimitReached({
    detail: `End users can give feedback on one run ${MAX_RUN_USES} times, with all of its tokens together.`
  })
)

/** Says nothing about the organization's limits: the caller is a browser. */
const full = new LimitReached({ detail: "No more feedback can be stored at present." })
