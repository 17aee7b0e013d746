/** Atoms of reviewer models and of their answers. */
import { Effect, Option } from "effect"
import { AsyncResult, Atom } from "effect/reactivity"
import type { ApprovalId, ReviewerAnswerId, TaskId } from "../../domain/Ids.ts"
import type { ReviewerTerms } from "../../domain/approvals/Reviewer/reviewerStanding.ts"
import { apiClient } from "./apiClient.ts"
import { refresh, useAtomValue } from "./atoms.ts"
import { consoleClient } from "./consoleClient.ts"
import { pagedAtom } from "./pagedAtom.ts"

/** Answers of one page: each has the arguments of its step. */
const ANSWERS_PAGE = 20

/** The reviewer models of the organization. */
export const reviewersAtom = Atom.make(Effect.map(apiClient.reviewers.list(), ({ reviewers }) => reviewers))

/** A reviewer model by its ID; undefined: not loaded, or there is none. */
export const useReviewer = (id: TaskId) => {
  const reviewers = useAtomValue(reviewersAtom)
  return Option.getOrUndefined(AsyncResult.value(reviewers))?.find(({ task_id }) => task_id === id)
}

/** One reviewer model, with its figures within bounds. */
export const reviewerAtom = Atom.family(({ task_id, terms }: { task_id: TaskId; terms: ReviewerTerms }) =>
  Atom.make(apiClient.reviewers.get({ params: { task_id }, query: terms }))
)

/** The terms that a backtest tries. */
export interface TestedTerms extends ReviewerTerms {
  readonly task_id: TaskId
  readonly sample: number
}

/** What a reviewer model would have decided in the usual window. */
export const backtestAtom = Atom.family(({ task_id, ...terms }: TestedTerms) =>
  Atom.make(apiClient.reviewers.backtest({ params: { task_id }, payload: terms }))
)

/** The lists of a reviewer model's answers. */
export type AnswerList = "all" | "disagreements" | "review"

const filters: Record<AnswerList, { readonly disagreed?: "true"; readonly to_review?: "true" }> = {
  all: {},
  disagreements: { disagreed: "true" },
  review: { to_review: "true" }
}

/** Answers of a reviewer model that may be shown, newest first, with their steps. */
export const answersAtom = Atom.family(({ list, task_id }: { task_id: TaskId; list: AnswerList }) =>
  pagedAtom(
    (cursor: ReviewerAnswerId | undefined) =>
      consoleClient.reviewer_answers.list({
        params: { task_id },
        query: { ...filters[list], limit: ANSWERS_PAGE, ...(cursor === undefined ? {} : { cursor }) }
      }),
    "answers"
  )
)

/** The answers of all reviewer models about one approval. There are none to show before people have decided. */
export const approvalAnswersAtom = Atom.family((approval_id: ApprovalId) =>
  Atom.make(
    Effect.gen(function* () {
      const { reviewers } = yield* apiClient.reviewers.list()
      const found = yield* Effect.forEach(
        reviewers,
        (reviewer) =>
          Effect.map(
            apiClient.reviewers.answers({ params: { task_id: reviewer.task_id }, query: { approval_id } }),
            ({ answers }) => answers.map((answer) => ({ answer, reviewer }))
          ),
        { concurrency: 4 }
      )
      return found.flat()
    })
  )
)

/** Reads the list of reviewer models again. */
export const refreshReviewers = (): void => refresh(reviewersAtom)
