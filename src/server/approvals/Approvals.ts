import { Array as Arr, Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import type { ApprovalFilter, DecidedApproval, DecideRequest } from "../../api/AgentApprovals.ts"
import type { DecideManyRequest, DecisionResult } from "../../api/DecisionBatch.ts"
import { Authorized } from "../../api/Authorization.ts"
import { notFound } from "../../api/notFound.ts"
import type { PageRequest } from "../../api/Pagination.ts"
import { InvalidRequest, type NotFound } from "../../api/Problems.ts"
import type { Approval } from "../../domain/approvals/Approval.ts"
import {
  type ApprovalInput,
  type ApprovalTransition,
  transition
} from "../../domain/approvals/ApprovalState.ts"
import { approvalsRequired } from "../../domain/approvals/Quorum.ts"
import type { ProposedArguments } from "../../domain/approvals/CounterProposal.ts"
import { proposalDigestInSlices, stepDigestInSlices } from "../../domain/approvals/StepDigest.ts"
import type { Grant } from "../../domain/approvals/Grant.ts"
import type { ApprovalId } from "../../domain/Ids.ts"
import type { Principal } from "../../domain/identity/Principal.ts"
import { redactText } from "../../domain/redaction/Redaction.ts"
import type { Timestamp } from "../../domain/Time.ts"
import { type RefusedDecision, refused } from "./Approvals/decisionRefusals.ts"
import { makeDecideMany } from "./Approvals/decideMany.ts"
import { listApprovals } from "./listApprovals.ts"
import { transitionWrite } from "./Approvals/transitionWrite.ts"
import {
  type ApprovalRow,
  findApproval,
  lockApprovalForUpdate,
  stateOf,
  toApproval,
  withState
} from "./approvalRows.ts"
import { digestInTurns } from "./digestInTurns.ts"
import { insertProposal, proposalBytes } from "./proposalRows.ts"
import {
  createGrant,
  type GrantRefusal,
  isGrantOf,
  type PreparedGrant,
  prepareGrant,
  requireOnePerson
} from "./Grants/createGrant.ts"
import { findGrantOfApproval } from "./Grants/rows.ts"
import { LoopTurns, nextTurn } from "../admission/LoopTurns.ts"
import { Audit } from "../identity/Audit.ts"
import { StoredUsage } from "../identity/StoredUsage.ts"
import { toPageWithinBytes, type Page } from "../store/Pagination.ts"
import { KnownSecrets } from "../secrets/KnownSecrets.ts"
import { ReviewerDecisions } from "./ReviewerDecisions.ts"
import { SessionWriter } from "./SessionWriter.ts"
import { Spans } from "../telemetry/Spans.ts"
import { StoreClock } from "../store/StoreClock.ts"

/**
 * Why a decision is refused. `InvalidRequest`: arguments are proposed with an approval, or equal the step's; or the grant makes no
 * sense.
 */
export type DecideError = NotFound | InvalidRequest | RefusedDecision | GrantRefusal

/** Approvals: pending requests for a person's decision, and closed ones. */
export class Approvals extends Context.Service<
  Approvals,
  {
    /** Newest first. A page ends at its limit or at 256 KiB of arguments, whichever comes first. */
    readonly list: (
      request: PageRequest<ApprovalId> & ApprovalFilter
    ) => Effect.Effect<Page<Approval, ApprovalId>, never, Authorized<"approvals.read">>
    /** Returns an approval with the arguments of its step. */
    readonly get: (id: ApprovalId) => Effect.Effect<Approval, NotFound, Authorized<"approvals.read">>
    /**
     * Approves or rejects a pending approval. Of concurrent decisions exactly one closes it: a rejection, or the approval that completes
     * the quorum; approvals before that are recorded as votes, and none is lost. The same decision by the same actor is idempotent.
     * A decision after the deadline is refused, whether or not the deadline worker has run. With a `grant`, approval and grant are made
     * together or not at all.
     */
    readonly decide: (
      id: ApprovalId,
      request: DecideRequest
    ) => Effect.Effect<DecidedApproval, DecideError, Authorized<"approvals.decide">>
    /** Makes one decision on many approvals, each as `decide` does. Returns a result for each, in the order of the request. */
    readonly decideMany: (
      request: DecideManyRequest
    ) => Effect.Effect<ReadonlyArray<DecisionResult>, never, Authorized<"approvals.decide">>
  }
>()("countersign/server/approvals/Approvals") {
  static readonly layer = Layer.effect(
    Approvals,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const clock = yield* StoreClock
      const spans = yield* Spans
      const audit = yield* Audit
      const writer = yield* SessionWriter
      const secrets = yield* KnownSecrets
      const usage = yield* StoredUsage
      const reviews = yield* ReviewerDecisions

      /** Removes secrets from the comment and the grant's reason, before they are stored, answered, streamed or sent. */
      const redactTexts = Effect.fnUntraced(function* ({ org_id }: Principal, request: DecideRequest) {
        const comment = request.comment ?? ""
        const reason = request.grant?.reason ?? ""
        if (comment === "" && reason === "") return request
        const known = yield* secrets.forOrg(org_id)
        return {
          ...request,
          ...(comment === "" ? {} : { comment: redactText(comment, known) }),
          ...(request.grant === undefined || reason === ""
            ? {}
            : { grant: { ...request.grant, reason: redactText(reason, known) } })
        }
      })

      /**
       * The proposal of these arguments instead of the step's. It is made before the transaction, because large arguments are digested in
       * turns. The digests cover members of the approval that never change.
       */
      const prepareProposal = Effect.fnUntraced(function* (
        { org_id }: Principal,
        id: ApprovalId,
        proposed: ProposedArguments
      ): Effect.fn.Return<Proposal, NotFound | InvalidRequest> {
        const row = yield* Effect.orDie(findApproval(sql, org_id, id))
        if (row === undefined) return yield* notFound("approval")
        const content = { ...row, arguments: proposed }
        // The digest of the step is equal only if its arguments are.
        const stepDigest = yield* digestInTurns(() => stepDigestInSlices(content))
        if (stepDigest === row.arguments_digest) return yield* unchangedProposal
        const digest = yield* digestInTurns(() => proposalDigestInSlices(content))
        yield* nextTurn
        return { arguments: JSON.stringify(proposed), digest }
      })

      /**
       * Decides without a lock, or under the locks of the session and the approval. Undefined: it needs them, because of a refusal, a
       * window that has passed, or a concurrent change. An approval that is closed needs none: it never changes again.
       */
      const decide = Effect.fnUntraced(function* <E = never>(
        principal: Principal,
        id: ApprovalId,
        request: DecideRequest,
        isLocked: boolean,
        { grantOf, proposal }: Extras<E> = {}
      ) {
        const { org_id } = principal
        const row = yield* isLocked
          ? Effect.orDie(lockApprovalForUpdate(sql, org_id, id))
          : writer.findApproval({ org_id, approval_id: id })
        if (row === undefined) return isLocked ? yield* notFound("approval") : undefined
        const now = yield* clock.now
        const input = {
          ...decisionInput(principal, request),
          ...(proposal === undefined ? {} : { proposal })
        }
        const { refusal, transitions } = transition(stateOf(row), input, now)
        const action = decisionEventOf(transitions)
        const isPlain = refusal === null && transitions.length === 1 && action !== undefined
        if (!isLocked && row.status === "pending" && !isPlain) return undefined
        let decided = row
        // Also if the decision is refused: windows that have passed are closed now, without waiting for the deadline worker.
        if (Arr.isReadonlyArrayNonEmpty(transitions)) {
          decided = withState(row, Arr.lastNonEmpty(transitions).state)
          const entry =
            action === undefined
              ? null
              : yield* audit.prepare(
                  principal,
                  decided.changes_requested ? "approval.changes_requested" : action,
                  id,
                  auditDetail(principal, decided)
                )
          const write = transitionWrite(spans, row, transitions, entry, now)
          const outcome = yield* writer.write(write, isLocked)
          if (outcome._tag !== "Written") return undefined
        }
        const { proposal: proposed } = stateOf(decided)
        if (proposal !== undefined && action !== undefined && proposed !== null) {
          yield* Effect.orDie(insertProposal(sql, decided, proposed))
          const bytes = proposalBytes(proposed)
          yield* sql.afterCommit(Effect.sync(() => usage.add(org_id, { bytes })))
        }
        const grant =
          grantOf === undefined || refusal !== null
            ? undefined
            : yield* grantOf(decided, { isDecided: action !== undefined, now })
        return { approval: toApproval(decided), refusal, grant }
      })

      /** Makes the grant of an approval, or finds the one that an equal request has made. */
      const makeGrantOf =
        (principal: Principal, id: ApprovalId, grant: PreparedGrant): GrantOf<GrantRefusal> =>
        (decided, { isDecided, now }) =>
          Effect.andThen(
            requireOnePerson(decided),
            isDecided
              ? createGrant({ sql, audit, usage }, principal, decided, grant, now)
              : Effect.map(findGrantOfApproval(sql, principal.org_id, id, now), (found) =>
                  found !== undefined && isGrantOf(grant, found) ? found : undefined
                )
          )

      const decideMany = makeDecideMany({
        decide,
        commit: writer.commit,
        refused,
        turns: yield* LoopTurns
      })

      return Approvals.of({
        list: Effect.fn("Approvals.list")(function* (request) {
          const { org_id } = yield* Authorized("approvals.read")
          const rows = yield* listApprovals(sql, org_id, request)
          return toPageWithinBytes(rows, toApproval, (row) => row.approval_id)
        }, Effect.orDie),
        get: Effect.fn("Approvals.get")(function* (id) {
          const { org_id } = yield* Authorized("approvals.read")
          const row = yield* Effect.orDie(findApproval(sql, org_id, id))
          if (row === undefined) return yield* notFound("approval")
          return toApproval(row)
        }),
        decide: Effect.fn("Approvals.decide")(function* (id, request) {
          const principal = yield* Authorized("approvals.decide")
          const redacted = yield* redactTexts(principal, request)
          const { decision, proposed_arguments } = request
          if (proposed_arguments !== undefined && decision === "approve") return yield* approvedProposal
          const grantOf =
            redacted.grant === undefined
              ? undefined
              : makeGrantOf(principal, id, yield* prepareGrant(decision, redacted.grant))
          const proposal =
            proposed_arguments === undefined
              ? undefined
              : yield* prepareProposal(principal, id, proposed_arguments)
          const isPlain = grantOf === undefined && proposal === undefined
          const { approval, grant, refusal } = yield* writer.commit((isLocked) =>
            isLocked || isPlain
              ? decide(principal, id, redacted, isLocked, { grantOf, proposal })
              : Effect.undefined
          )
          if (refusal !== null) return yield* refused(refusal, approval)
          // A decision that was made before without a grant, or with another one, gets none later.
          if (grantOf !== undefined && grant === undefined) return yield* refused("AlreadyDecided", approval)
          yield* reviews.check(principal.org_id, approval.tool)
          return { ...approval, ...(grant === undefined ? {} : { grant }) }
        }),
        decideMany: Effect.fn("Approvals.decideMany")(function* ({ approval_ids, ...request }) {
          const principal = yield* Authorized("approvals.decide")
          const results = yield* decideMany(principal, approval_ids, yield* redactTexts(principal, request))
          for (const tool of new Set(results.flatMap(({ approval }) => approval?.tool ?? [])))
            yield* reviews.check(principal.org_id, tool)
          return results
        })
      })
    })
  )
}

/** The input of the state machine for a person's decision. */
const decisionInput = (
  { actor, groups, makers, scopes }: Principal,
  { comment, decision }: DecideRequest
) => ({
  _tag: "Decide" as const,
  decision,
  actor,
  makers,
  groups,
  admin: scopes.has("approvals.admin"),
  comment: comment ?? null
})

/** Other arguments that a decision proposes. */
type Proposal = NonNullable<(ApprovalInput & { readonly _tag: "Decide" })["proposal"]>

/** Makes or finds the grant of an approval, in the transaction that decides it. */
type GrantOf<E> = (
  decided: ApprovalRow,
  at: { readonly isDecided: boolean; readonly now: Timestamp }
) => Effect.Effect<Grant | undefined, E>

/** The parts that are decided under the lock only: the counter-proposal of a rejection, and the grant of an approval. */
interface Extras<E> {
  readonly proposal?: Proposal | undefined
  readonly grantOf?: GrantOf<E> | undefined
}

const approvedProposal = Effect.fail(
  new InvalidRequest({
    detail: "Only a rejection can propose other arguments. Leave out `proposed_arguments`, or reject.",
    errors: [{ pointer: "#/proposed_arguments", detail: "Expected no proposed arguments with `approve`." }]
  })
)

const unchangedProposal = Effect.fail(
  new InvalidRequest({
    detail: "The proposed arguments are those of the step. Propose other ones, or approve.",
    errors: [{ pointer: "#/proposed_arguments", detail: "Expected other arguments than the step's." }]
  })
)

/** The events that a person causes. The others come with time, also while a decision is made that changes nothing. */
const decisionEvents = ["approval.vote_recorded", "approval.approved", "approval.rejected"] as const

/** The event of a decision that was accepted and is not a repetition: always the last one. */
const decisionEventOf = (transitions: ReadonlyArray<ApprovalTransition>) =>
  decisionEvents.find((event) => event === transitions.at(-1)?.event)

/** The detail of a decision in the audit log, beside its event. */
const auditDetail = (
  { groups }: Principal,
  { proposed_digest, quorum, session_id, stage, step_id, tool, votes }: ApprovalRow
) => ({
  session_id,
  step_id,
  tool,
  stage,
  ...(quorum === null
    ? {}
    : { groups, approvals_given: votes?.length ?? 0, approvals_required: approvalsRequired(quorum) }),
  ...(proposed_digest === null ? {} : { proposed_digest })
})
