import { Effect } from "effect"
import { Atom } from "effect/reactivity"
import { lazy, Suspense, useEffect, useRef, useState } from "react"
import type { InboxItem } from "../../../api/Console.ts"
import type { Approval, Decision } from "../../../domain/approvals/Approval.ts"
import { describeProgress } from "../../../domain/approvals/Quorum.ts"
import type { ApprovalId, GrantId } from "../../../domain/Ids.ts"
import { Link, navigate, pathAtom } from "../../app/router.tsx"
import { advanceAtom } from "../../state/advance.ts"
import { refresh, registry } from "../../state/atoms.ts"
import { applyApproval, type InboxState } from "../../state/inbox.ts"
import { consoleClient } from "../../state/consoleClient.ts"
import { apiClient } from "../../state/apiClient.ts"
import { findObstacle, isBarred, type Obstacle } from "../../state/findObstacle.ts"
import { useKeptWork } from "../../state/keptWork.ts"
import { useSession } from "../../state/session.ts"
import { usePageTitle } from "../../app/PageTitle.tsx"
import { Button } from "../../ui/Button.tsx"
import { JsonTree } from "../../ui/JsonTree.tsx"
import { AsyncContent } from "../../ui/AsyncContent.tsx"
import { FailureNotice } from "../../ui/FailureNotice.tsx"
import { UntrustedText } from "../../ui/UntrustedText.tsx"
import { AbsoluteTime, Countdown } from "../../ui/Time.tsx"
import { useReading } from "../../ui/reading/useReading.ts"
import { plainLine } from "../../ui/plainLine.ts"
import { showToast } from "../../ui/Toasts.tsx"
import { useAction } from "../../ui/useAction.ts"
import { useKeyboardShortcuts } from "../../ui/useKeyboardShortcuts.ts"
import { type DecisionExtras, DecideForm } from "./DecideForm.tsx"
import { ApprovalProperties } from "./ApprovalProperties.tsx"
import { ChangesSection, HistorySection, RequestSection } from "./ContextSection.tsx"
import { ApprovalHeading } from "./ApprovalHeading.tsx"
import { DeadlineBar } from "./DeadlineBar.tsx"
import { ClosedReason } from "./ClosedReason.tsx"
import { Conversation } from "./Conversation.tsx"
import { ApprovalStatusBadge } from "./ApprovalStatusBadge.tsx"
import { ProposalSection } from "./ProposalSection.tsx"
import { UnknownApproval } from "./UnknownApproval.tsx"
import { verdictOf } from "./verdictOf.ts"

const ReviewerSection = lazy(async () => ({
  default: (await import("./ReviewerSection.tsx")).ReviewerSection
}))

/** The most characters of a tool in a toast. */
const MAX_TOOL = 60

const itemAtom = Atom.family((id: ApprovalId) => Atom.make(consoleClient.inbox.get({ params: { id } })))

interface DetailProps {
  readonly id: ApprovalId
  readonly inbox: InboxState
  /** Whether its keys decide it. They decide the selected approvals while there are any. */
  readonly hasKeys: boolean
  /** Whether it is selected for one decision. */
  readonly marked: boolean
  readonly onMark: () => void
  /** Undefined: there is no next one in the list beside it. */
  readonly onNext: (() => void) | undefined
  readonly onBack: () => void
}

/** One approval: the requested tool call with its arguments, the deadline, and the decision or the form for it. */
export default function ApprovalDetail(props: DetailProps) {
  return (
    <AsyncContent atom={itemAtom(props.id)} notFound={<UnknownApproval onBack={props.onBack} />}>
      {(item) => <LoadedApproval {...props} item={item} />}
    </AsyncContent>
  )
}

const LoadedApproval = ({
  hasKeys,
  id,
  inbox,
  item,
  marked,
  onBack,
  onMark,
  onNext
}: DetailProps & { readonly item: InboxItem }) => {
  const session = useSession()
  // The stream's snapshot is newer than the loaded approval but has no arguments, so the two are merged.
  const snapshot = inbox.closed.get(id) ?? inbox.pending.find(({ approval_id }) => approval_id === id)
  const approval: Approval = snapshot === undefined ? item.approval : { ...item.approval, ...snapshot }
  const { phase, fullReads } = inbox
  // The approval closed while the stream was disconnected: reload it once after each full read of the inbox.
  const missed = snapshot === undefined && phase === "live" && item.approval.status === "pending"
  useEffect(() => {
    if (missed && fullReads > 0) refresh(itemAtom(id))
  }, [id, missed, fullReads])
  // Snapshots have no arguments, neither the step's nor a proposal's.
  const lacksProposal = approval.proposal !== null && item.approval.proposal === null
  useEffect(() => {
    if (lacksProposal) refresh(itemAtom(id))
  }, [id, lacksProposal])
  usePageTitle(approval.rule_summary ?? approval.tool)
  const obstacle = findObstacle(approval, session)
  const wasPending = item.approval.status === "pending"
  const decide = useAction((given: Decision, comment: string, { grant, proposed }: DecisionExtras) =>
    apiClient.approvals
      .decide({
        params: { id },
        payload: {
          decision: given,
          comment: comment === "" ? null : comment,
          ...(proposed === undefined ? {} : { proposed_arguments: proposed }),
          ...(grant === undefined ? {} : { grant })
        }
      })
      .pipe(
        Effect.tapError((error) =>
          Effect.sync(() => {
            if ("approval" in error) applyApproval(error.approval)
          })
        ),
        Effect.tap(({ grant: _, ...decided }) => Effect.sync(() => applyApproval(decided)))
      )
  )
  const [hasSubmitted, setSubmitted] = useState(false)
  /** The standing grant that this decision made. */
  const [grantId, setGrantId] = useState<GrantId>()
  const kept = useKeptWork({
    name: `comment ${id}`,
    base: "",
    initial: () => "",
    toStored: (text: string) => (text === "" ? undefined : text),
    restore: (stored) => (typeof stored === "string" ? stored : undefined)
  })
  const comment = kept.work
  const submit = async (given: Decision, text: string, extras: DecisionExtras) => {
    setSubmitted(true)
    // After a failure the form stays open, with its text.
    const decided = await decide.run(given, text, extras)
    if (decided === undefined) return
    kept.discard()
    setVerdict(undefined)
    const { grant } = decided
    setGrantId(grant?.grant_id)
    if (!registry.get(advanceAtom) || onNext === undefined || decided.status === "pending") return
    // Its user may have opened something else meanwhile.
    if (registry.get(pathAtom) === `/approvals/${id}`) onNext()
    showToast(`${verdictOf(decided)}: ${plainLine(decided.tool, MAX_TOOL)}`, {
      label: grant === undefined ? "View" : "View the grant",
      act: () => navigate(grant === undefined ? `/approvals/${id}` : `/grants/${grant.grant_id}`)
    })
  }
  /** Whether the decision, or a vote, is this key's: then its comment was recorded. */
  const isMine =
    approval.decided_by?.id === session.key.id ||
    approval.votes.some(({ voted_by }) => voted_by.id === session.key.id)
  const args = useRef<HTMLElement>(null)
  const reading = useReading(args, true)
  const showMore = () => {
    args.current?.focus({ preventScroll: true })
    reading.showNext()
  }
  const [verdict, setVerdict] = useState<Decision>()
  const takesKeys = hasKeys && reading.isArmed && approval.status === "pending" && verdict === undefined
  const canDecide = !item.own_request && !isBarred(obstacle)
  const note = describeDuty(approval, item.own_request ? "own" : obstacle)
  const approve = reading.isSeen ? () => setVerdict("approve") : showMore
  const keys = {
    a: takesKeys && canDecide && obstacle === undefined ? approve : undefined,
    r: takesKeys && canDecide ? () => setVerdict("reject") : undefined,
    c: takesKeys && canDecide ? () => setVerdict("request_changes") : undefined,
    Escape: verdict === undefined ? undefined : () => setVerdict(undefined)
  }
  useKeyboardShortcuts(keys)
  return (
    <article className="approval" aria-labelledby="approval-title">
      <Button small kind="bare" onClick={onBack}>
        ← All approvals
      </Button>
      <header className="approval-head">
        <ApprovalHeading approval={approval} />
        {approval.status === "pending" ? (
          <div className="closes">
            <p>
              Due in <Countdown from={approval.requested_at} until={approval.expires_at} />
            </p>
            {obstacle === "scope" ? null : (
              <Button small aria-pressed={marked} onClick={onMark}>
                {marked ? "Selected" : "Select"} <kbd>x</kbd>
              </Button>
            )}
          </div>
        ) : (
          <ApprovalStatusBadge approval={approval} />
        )}
      </header>
      <FailureNotice failure={decide.failure}>
        {decide.failure?.code === undefined && decide.failure?.errors.length === 0 ? (
          <p>
            Whether your decision was recorded is not known. Decide again when the service answers: a decision
            is recorded once.
          </p>
        ) : undefined}
      </FailureNotice>
      {approval.status === "pending" ? null : (
        <ClosedNotice
          approval={approval}
          closedMeanwhile={wasPending && decide.failure !== undefined}
          takesFocus={hasSubmitted}
          unsentComment={isMine ? "" : comment}
          grantId={grantId}
          onNext={onNext}
        />
      )}
      {approval.status === "pending" ? (
        <>
          {note === undefined ? null : (
            <p className="notice" role="status">
              {note}
            </p>
          )}
          <DeadlineBar approval={approval} />
        </>
      ) : null}
      <section ref={args} tabIndex={-1} aria-label="Arguments">
        <h3>Arguments</h3>
        <JsonTree label="Arguments" value={approval.arguments} unfolded={reading.isUnfolded} />
      </section>
      <ChangesSection approval={approval} />
      <RequestSection approval={approval} />
      {approval.proposal === null ? null : (
        <ProposalSection
          stepArguments={approval.arguments}
          proposal={item.approval.proposal ?? approval.proposal}
        />
      )}
      <Conversation
        approval={approval}
        newest={Math.max(snapshot?.line?.newest_question ?? 0, snapshot?.line?.newest_answer ?? 0)}
      />
      {approval.decision_source === "human" ? (
        <Suspense>
          <ReviewerSection approval_id={id} />
        </Suspense>
      ) : null}
      <HistorySection approval={approval} />
      <ApprovalProperties approval={approval} />
      {approval.status !== "pending" || !canDecide ? null : (
        <DecideForm
          verdict={verdict}
          keys={keys}
          note={note}
          reading={reading}
          onShowMore={showMore}
          canApprove={obstacle === undefined}
          requirement={approval.require_comment}
          canGrant={approval.approvals_required === 1}
          pending={decide.pending}
          comment={comment}
          onComment={kept.setWork}
          stepArguments={approval.arguments}
          onVerdict={setVerdict}
          onSubmit={submit}
        />
      )}
    </article>
  )
}

/** Who else decides, and why this key cannot approve; undefined: it decides alone. */
const describeDuty = (approval: Approval, obstacle: Obstacle | undefined): string | undefined => {
  const progress = describeProgress(approval)
  const needed = progress === "" ? "" : `Approvals: ${progress}. `
  if (obstacle !== undefined) return needed + obstacleTexts[obstacle]
  if (progress === "") return undefined
  return `${needed}Yours is vote ${approval.votes.length + 1} of ${approval.approvals_required}.`
}

const obstacleTexts: Record<Obstacle, string> = {
  scope: "This API key can view approvals but not decide them.",
  admin: "The review window has passed. Only an admin can decide now.",
  own: "This API key requested the step, and the rule does not allow self-approval. Someone with another key must decide.",
  group: "This API key is in none of these groups.",
  approved: "Your approval is recorded. Others must approve too; until then you can still reject.",
  enough: "Enough members of your groups have approved. Others must approve too; you can reject."
}

const ClosedNotice = ({
  approval,
  closedMeanwhile,
  grantId,
  onNext,
  takesFocus,
  unsentComment
}: {
  readonly approval: Approval
  readonly closedMeanwhile: boolean
  /** Whether its user has just decided: the form that had the focus is gone. */
  readonly takesFocus: boolean
  /** The text that was typed when another person decided. */
  readonly unsentComment: string
  /** The standing grant that was just made with the approval. */
  readonly grantId: GrantId | undefined
  readonly onNext: (() => void) | undefined
}) => {
  const notice = useRef<HTMLDivElement>(null)
  useEffect(() => {
    if (takesFocus) notice.current?.focus()
  }, [takesFocus])
  return (
    <div ref={notice} tabIndex={-1} className="notice" role="status">
      <p className="notice-title">
        {closedMeanwhile ? "Closed before your decision: " : ""}
        <ClosedReason approval={approval} />
      </p>
      {approval.comment === null || approval.comment === "" ? null : (
        <blockquote>
          <UntrustedText text={approval.comment} />
        </blockquote>
      )}
      <p className="quiet">
        <AbsoluteTime time={approval.decided_at} /> · Returned to the agent:{" "}
        <strong>{approval.outcome ?? "reject"}</strong>
      </p>
      {grantId === undefined ? null : (
        <p>
          Further steps are allowed by a standing grant:{" "}
          <Link to={`/grants/${grantId}`}>view or revoke it</Link>
        </p>
      )}
      {unsentComment.trim() === "" ? null : (
        <p>
          Your comment was not recorded: <UntrustedText text={unsentComment} />
        </p>
      )}
      {onNext === undefined ? null : (
        <div className="notice-actions">
          <Button small onClick={onNext}>
            Next <kbd>j</kbd>
          </Button>
        </div>
      )}
    </div>
  )
}
