import { Array as Arr, Effect, Struct } from "effect"
import type { DecideRequest } from "../../../api/AgentApprovals.ts"
import type { DecisionRefusal, DecisionResult } from "../../../api/DecisionBatch.ts"
import type { NotFound } from "../../../api/Problems.ts"
import type { Approval } from "../../../domain/approvals/Approval.ts"
import type { ApprovalRefusal } from "../../../domain/approvals/ApprovalState.ts"
import type { ApprovalId } from "../../../domain/Ids.ts"
import type { Principal } from "../../../domain/identity/Principal.ts"
import { inTurns, type LoopTurns } from "../../admission/LoopTurns.ts"
import type { SessionWriter } from "../SessionWriter.ts"

/** Approvals that one turn at the event loop prepares for the shared statement: some milliseconds of work. */
const SLICE = 25

/**
 * Transactions of one request at a time. They wait for locks of each other's sessions, and hold connections of their
 * organization.
 */
const MAX_TRANSACTIONS = 4

/** The result of one decision: the approval as it is now, and the reason if the decision was refused. */
export interface Decided {
  readonly approval: Approval
  readonly refusal: ApprovalRefusal | null
}

/** A decision as a result keeps it: the arguments of a hundred approvals and proposals can take gigabytes of memory. */
const withoutArguments = ({
  approval: { arguments: _, proposal, ...approval },
  refusal
}: Decided): Decided => ({
  approval: { ...approval, proposal: proposal === null ? null : Struct.omit(proposal, ["arguments"]) },
  refusal
})

/** A problem that a decision can have. */
type Problem = Omit<DecisionRefusal, "detail"> & { readonly detail?: string }

/** The parts of a decision. */
export interface DecideParts<Refused> {
  /** Decides, without a lock or under it. Undefined: the lock is needed. */
  readonly decide: (
    principal: Principal,
    id: ApprovalId,
    request: DecideRequest,
    isLocked: boolean
  ) => Effect.Effect<Decided | undefined, NotFound>
  readonly commit: SessionWriter["Service"]["commit"]
  /** The problem for a refusal. */
  readonly refused: (refusal: ApprovalRefusal, approval: Approval) => Effect.Effect<never, Refused>
  readonly turns: LoopTurns
}

/**
 * Makes one decision on each of these approvals. All of them first share statements: a hundred decisions take about four.
 * Decisions that need a lock follow: while one of these held a session's lock, the shared statement would skip all
 * other approvals of that session.
 */
export const makeDecideMany = <Refused extends Problem>({
  commit,
  decide,
  refused,
  turns
}: DecideParts<Refused>) =>
  Effect.fnUntraced(function* (
    principal: Principal,
    ids: ReadonlyArray<ApprovalId>,
    request: DecideRequest
  ): Effect.fn.Return<ReadonlyArray<DecisionResult>> {
    const turn = turns.take(principal.org_id)
    const shared = yield* Effect.forEach(
      Arr.chunksOf(ids, SLICE),
      (slice) =>
        Effect.andThen(
          turn,
          Effect.forEach(
            slice,
            (id) =>
              decide(principal, id, request, false).pipe(
                Effect.map((decided) => (decided === undefined ? undefined : withoutArguments(decided))),
                // A missing approval is reported only under the lock.
                Effect.orElseSucceed(() => undefined)
              ),
            { concurrency: "unbounded" }
          )
        ),
      { concurrency: "unbounded" }
    )

    const resultOf = ({ approval, refusal }: Decided): Effect.Effect<DecisionResult> => {
      const { approval_id } = approval
      if (refusal === null) return Effect.succeed({ approval_id, approval, problem: null })
      return Effect.map(Effect.flip(refused(refusal, approval)), (problem) => ({
        approval_id,
        // A single decision shows the approval with these problems too: they tell how it was closed.
        approval: approval.status === "pending" ? null : approval,
        problem: toProblem(problem)
      }))
    }

    const decideAlone = (approval_id: ApprovalId): Effect.Effect<DecisionResult> =>
      Effect.andThen(
        turn,
        commit((isLocked) => (isLocked ? decide(principal, approval_id, request, true) : Effect.undefined))
      ).pipe(
        Effect.map(withoutArguments),
        Effect.matchEffect({
          onSuccess: resultOf,
          onFailure: (missing) => Effect.succeed({ approval_id, approval: null, problem: toProblem(missing) })
        }),
        // Each may have arguments of some MiB.
        inTurns(turn)
      )

    const decisions = shared.flat()
    return yield* Effect.forEach(
      ids,
      (id, index) => {
        const decided = decisions[index]
        return decided === undefined ? decideAlone(id) : resultOf(decided)
      },
      { concurrency: MAX_TRANSACTIONS }
    )
  })

/** A problem as a member of a response. */
const toProblem = ({ code, status, title, type, detail = title }: Problem): DecisionRefusal => ({
  type,
  status,
  code,
  title,
  detail
})
