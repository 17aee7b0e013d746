import { Console, Effect, Option, Schema } from "effect"
import { Client } from "../../client/Client.ts"
import { TaskId } from "../../domain/Ids.ts"
import { commandFailed } from "../exitCode.ts"
import { reviewersKey } from "../reviewers.ts"
import { type Connection, useService } from "../useService.ts"
import { describeBacktest, describeFigures, describeReviewer } from "./describeReviewer.ts"

interface OfReviewer extends Connection {
  readonly reviewer: string
}

interface Terms {
  readonly minLowerBound: number
  readonly maxFalseApprovals: number
}

const toTerms = ({ maxFalseApprovals, minLowerBound }: Terms) => ({
  min_lower_bound: minLowerBound,
  max_false_approvals: maxFalseApprovals
})

const isTaskId = Schema.is(TaskId)

/** The parameters of an operation on a reviewer model. */
const paramsOf = ({ reviewer }: OfReviewer) =>
  isTaskId(reviewer)
    ? Effect.succeed({ task_id: reviewer })
    : Effect.fail(commandFailed(`${reviewer} is not the ID of a reviewer model: see reviewers list`))

/** Prints the reviewer models of the organization. */
export const listReviewers = (connection: Connection) =>
  useService(reviewersKey, connection, () =>
    Effect.gen(function* () {
      const client = yield* Client
      const { reviewers } = yield* client.reviewers.list()
      if (reviewers.length === 0) yield* Console.log("There are no reviewer models.")
      for (const reviewer of reviewers) yield* Console.log(describeReviewer(reviewer))
    })
  )

/** Prints the figures of a reviewer model. */
export const showReviewer = (given: OfReviewer & Terms) =>
  useService(reviewersKey, given, () =>
    Effect.gen(function* () {
      const client = yield* Client
      const params = yield* paramsOf(given)
      const { figures, reviewer } = yield* client.reviewers.get({ params, query: toTerms(given) })
      yield* Console.log([describeReviewer(reviewer), ...describeFigures(figures)].join("\n"))
    })
  )

/** Prints the decisions that a reviewer model would have made. */
export const backtestReviewer = (
  given: OfReviewer & Terms & { readonly sample: Option.Option<number>; readonly days: Option.Option<number> }
) =>
  useService(reviewersKey, given, () =>
    Effect.gen(function* () {
      const client = yield* Client
      const params = yield* paramsOf(given)
      const result = yield* client.reviewers.backtest({
        params,
        payload: {
          ...toTerms(given),
          ...(Option.isSome(given.sample) ? { sample: given.sample.value } : {}),
          ...(Option.isSome(given.days) ? { days: given.days.value } : {})
        }
      })
      yield* Console.log(describeBacktest(result))
    })
  )

/** Stops a reviewer model, and prints it. */
export const stopReviewer = (given: OfReviewer) =>
  useService(reviewersKey, given, () =>
    Effect.gen(function* () {
      const client = yield* Client
      yield* Console.log(describeReviewer(yield* client.reviewers.stop({ params: yield* paramsOf(given) })))
    })
  )

/** Restores a reviewer model, and prints it. */
export const restoreReviewer = (given: OfReviewer) =>
  useService(reviewersKey, given, () =>
    Effect.gen(function* () {
      const client = yield* Client
      yield* Console.log(
        describeReviewer(yield* client.reviewers.restore({ params: yield* paramsOf(given) }))
      )
    })
  )
