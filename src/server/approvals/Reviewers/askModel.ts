import { Cause, Data, Duration, Effect, Exit, Option, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { MAX_REASON, ReviewerDecision } from "../../../domain/approvals/Reviewer.ts"
import { MAX_REVIEWED_ARGUMENTS } from "../../../domain/approvals/Reviewer/reviewerDecision.ts"
import { REVIEW_ANSWER_SCHEMA, reviewInstructions } from "../../../domain/approvals/Reviewer/reviewPrompt.ts"
import type { DatasetId, OrgId, ReleaseId, TaskId } from "../../../domain/Ids.ts"
import { redactText } from "../../../domain/redaction/Redaction.ts"
import { KnownSecrets } from "../../secrets/KnownSecrets.ts"
import { StoreClock } from "../../store/StoreClock.ts"
import { CompiledSchemas } from "../../tasks/CompiledSchemas.ts"
import { readLiveRelease } from "../../tasks/liveRelease.ts"
import { type ProviderCall, Providers } from "../../tasks/Providers.ts"
import { isTooLarge, readInput, type ReviewedStep } from "./readInput.ts"
import { settleCall, takeCall } from "./rows.ts"

/** A reviewer model to ask. */
export interface AskedReviewer {
  readonly org_id: OrgId
  readonly task_id: TaskId
}

/** The answer of a reviewer model about a step. */
export interface ReviewerReply {
  readonly decision: ReviewerDecision
  /** Redacted. */
  readonly reason: string
  /** The release that answered, and the dataset version whose examples it saw; null: none. */
  readonly release_id: ReleaseId
  readonly dataset_id: DatasetId | null
  /** Calls to the model, and the tokens that the model server reports for them. */
  readonly calls: number
  readonly tokens: number
}

/** A reviewer model has no answer. `detail` is a sentence of this service and contains nothing that the model server sent. */
export class ReviewerFailed extends Data.TaggedError("ReviewerFailed")<{
  readonly reason:
    | "unknown_reviewer"
    /** The limits of the day are used up: the model was not called. */
    | "limit_used_up"
    /** The arguments are too large to be shown to a model. */
    | "too_large"
    /** No example is near enough, for a provider that answers with examples alone. */
    | "no_example"
    | "provider_failed"
    | "timed_out"
  readonly detail: string
  /** The release that was asked, and the dataset version of its examples; null if none was. */
  readonly release_id: ReleaseId | null
  readonly dataset_id: DatasetId | null
  readonly calls: number
  readonly tokens: number
}> {}

const decodeAnswer = Schema.decodeUnknownEffect(
  Schema.Struct({ decision: ReviewerDecision, reason: Schema.String })
)

const tokensOf = (calls: ReadonlyArray<ProviderCall>): number =>
  calls.reduce((sum, { usage }) => sum + (usage.input_tokens ?? 0) + (usage.output_tokens ?? 0), 0)

/** Whether a request got an answer, for the count of failures in a row; null: it does not count. */
const hasAnswer = (exit: Exit.Exit<unknown, ReviewerFailed>): boolean | null => {
  if (Exit.isSuccess(exit)) return true
  const failure = Cause.findErrorOption(exit.cause)
  return Option.isSome(failure) && failure.value.reason !== "no_example" ? false : null
}

/** Makes the function that asks the model of a reviewer about a step, and records what that used. */
export const makeAskModel = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const clock = yield* StoreClock
  const providers = yield* Providers
  const secrets = yield* KnownSecrets
  const schemas = yield* CompiledSchemas
  const compiled = yield* Effect.orDie(schemas.compile(REVIEW_ANSWER_SCHEMA))
  const answer = { compiled, schema: Effect.succeed(REVIEW_ANSWER_SCHEMA) }
  const store = { sql, clock }

  return Effect.fn("Reviewers.askReviewer")(function* (
    { org_id, task_id }: AskedReviewer,
    step: ReviewedStep,
    timeout: Duration.Duration
  ): Effect.fn.Return<ReviewerReply, ReviewerFailed> {
    let release_id: ReleaseId | null = null
    let dataset_id: DatasetId | null = null
    const calls: Array<ProviderCall> = []
    const used = () => ({ release_id, dataset_id, calls: calls.length, tokens: tokensOf(calls) })
    const fail = (reason: ReviewerFailed["reason"], detail: string) =>
      new ReviewerFailed({ reason, detail, ...used() })
    const timedOut = Effect.suspend(() =>
      Effect.fail(fail("timed_out", `The model did not answer within ${Duration.format(timeout)}.`))
    )

    const ask = Effect.gen(function* () {
      const release = yield* Effect.orDie(readLiveRelease(sql, org_id, task_id))
      if (release === undefined) return yield* fail("unknown_reviewer", "The reviewer was deleted.")
      release_id = release.release_id
      dataset_id = release.dataset_id
      if (isTooLarge(step)) {
        return yield* fail("too_large", `The arguments have more than ${MAX_REVIEWED_ARGUMENTS} characters.`)
      }
      const known = yield* secrets.forOrg(org_id)
      const input = yield* Effect.orDie(readInput(sql, known, step))
      if (!(yield* Effect.orDie(takeCall(store, org_id, task_id)))) {
        return yield* fail("limit_used_up", "The limits of the day are used up.")
      }
      const { instructions, provider } = release
      const asked = providers.answer({
        org_id,
        task_id,
        provider:
          provider.kind === "examples"
            ? provider
            : {
                ...provider,
                timeout_seconds: Math.min(provider.timeout_seconds, Duration.toSeconds(timeout))
              },
        instructions: reviewInstructions(instructions),
        hasVariables: false,
        dataset_id,
        input,
        answer,
        onCall: (call) => calls.push(call)
      })
      const { decision, reason } = yield* asked.pipe(
        Effect.flatMap((answered) => Effect.orDie(decodeAnswer(answered.answer))),
        Effect.catchTag("NoAnswer", ({ detail, reason: why }) =>
          fail(why === "no_example" || why === "no_near_example" ? "no_example" : "provider_failed", detail)
        ),
        Effect.timeoutOrElse({ duration: timeout, orElse: () => timedOut }),
        Effect.onExit((exit) =>
          settleCall(store, org_id, task_id, {
            calls: calls.length,
            tokens: tokensOf(calls),
            hasAnswer: hasAnswer(exit)
          }).pipe(
            Effect.catchCause((cause) => Effect.logWarning("The use of a reviewer was not recorded", cause))
          )
        )
      )
      return {
        decision,
        reason: redactText(reason, known).slice(0, MAX_REASON).toWellFormed(),
        release_id: release.release_id,
        dataset_id,
        calls: calls.length,
        tokens: tokensOf(calls)
      }
    })
    // Also if the database is slow.
    return yield* Effect.timeoutOrElse(ask, { duration: timeout, orElse: () => timedOut })
  })
})
