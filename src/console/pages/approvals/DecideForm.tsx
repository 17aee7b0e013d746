import { Result, type Schema } from "effect"
import { useEffect, useRef, useState } from "react"
import type { JsonObject } from "../../../domain/tasks/Dataset.ts"
import { type CommentRequirement, type Decision, needsComment } from "../../../domain/approvals/Approval.ts"
import { hasVisibleText } from "../../../domain/VisibleText.ts"
import { Button } from "../../ui/Button.tsx"
import { CommentForm } from "../../ui/CommentForm.tsx"
import { ReadingHint } from "../../ui/reading/ReadingHint.tsx"
import type { Reading } from "../../ui/reading/useReading.ts"
import type { NewGrant } from "../../../api/Grants.ts"
import { fromGrantDraft, type GrantDraft } from "./GrantDraft.ts"
import { GrantField } from "./GrantField.tsx"
import { proposableArguments, ProposalField, readProposal } from "./ProposalField.tsx"

const choices: Record<Decision, { readonly label: string; readonly kind: "good" | "bad" }> = {
  approve: { label: "Approve", kind: "good" },
  reject: { label: "Reject", kind: "bad" },
  request_changes: { label: "Request changes", kind: "bad" }
}

/** The parts of a decision besides its comment. */
export interface DecisionExtras {
  readonly proposed: JsonObject | undefined
  readonly grant: NewGrant | undefined
}

/**
 * The buttons of the verdicts; after a choice, a comment field and the final submit. A rejection can propose other arguments, an approval can
 * allow further steps. Requested changes need the comment, and so does any decision for which the rule asks for one. On a phone it sticks to the bottom.
 */
export const DecideForm = ({
  canApprove,
  canGrant,
  comment,
  keys,
  note,
  onComment,
  onShowMore,
  onSubmit,
  onVerdict,
  pending,
  reading,
  requirement,
  stepArguments,
  verdict
}: {
  readonly stepArguments: Schema.Json | undefined
  readonly canApprove: boolean
  /** Whether the approval of one person is enough, so that it can carry a standing grant. */
  readonly canGrant: boolean
  readonly verdict: Decision | undefined
  readonly pending: boolean
  /** The comment so far. The page keeps it, also if another person decides first. */
  readonly comment: string
  readonly onComment: (comment: string) => void
  /** The decisions with which the rule asks for a comment. */
  readonly requirement: CommentRequirement
  /** Who else decides, or why this key cannot approve. */
  readonly note: string | undefined
  /** How much of the arguments was on the screen. */
  readonly reading: Reading
  /** Shows more of them. */
  readonly onShowMore: () => void
  /** The keys that act now. */
  readonly keys: Readonly<Record<"a" | "c" | "r", unknown>>
  readonly onVerdict: (verdict: Decision | undefined) => void
  readonly onSubmit: (verdict: Decision, comment: string, extras: DecisionExtras) => Promise<void>
}) => {
  const [proposalText, setProposalText] = useState<string>()
  const [grantDraft, setGrantDraft] = useState<GrantDraft>()
  const buttons = useRef<HTMLDivElement>(null)
  const isOpen = verdict !== undefined
  const wasOpen = useRef(false)
  useEffect(() => {
    // The field that had the focus is gone.
    if (wasOpen.current && !isOpen) buttons.current?.querySelector("button")?.focus()
    wasOpen.current = isOpen
  }, [isOpen])
  if (verdict === undefined) {
    const keyOf = (key: "a" | "c" | "r") => (keys[key] === undefined ? undefined : key)
    return (
      <div ref={buttons} className="decide" data-covers="">
        {note === undefined ? null : <p className="decide-hint">{note}</p>}
        {canApprove ? <ReadingHint reading={reading} /> : null}
        {!canApprove ? null : reading.isSeen ? (
          <Button kind="good" aria-keyshortcuts={keyOf("a")} onClick={() => onVerdict("approve")}>
            Approve <kbd>a</kbd>
          </Button>
        ) : (
          <Button aria-keyshortcuts={keyOf("a")} onClick={onShowMore}>
            {reading.folds === 0 ? "Show the rest" : "Show all arguments"} <kbd>a</kbd>
          </Button>
        )}
        <Button kind="bad" aria-keyshortcuts={keyOf("r")} onClick={() => onVerdict("reject")}>
          Reject <kbd>r</kbd>
        </Button>
        <Button aria-keyshortcuts={keyOf("c")} onClick={() => onVerdict("request_changes")}>
          Request changes <kbd>c</kbd>
        </Button>
      </div>
    )
  }
  const { kind, label } = choices[verdict]
  const original = verdict === "approve" ? undefined : proposableArguments(stepArguments)
  const isCommentRequired = needsComment(requirement, verdict)
  const lacksComment = isCommentRequired && !hasVisibleText(comment)
  const proposal =
    original === undefined || proposalText === undefined ? undefined : readProposal(proposalText, original)
  const grantOf = (text: string) =>
    verdict === "approve" && canGrant && grantDraft !== undefined
      ? fromGrantDraft(grantDraft, text)
      : undefined
  const grant = grantOf(comment)
  return (
    <CommentForm
      label={
        verdict === "request_changes"
          ? "What the agent has to change"
          : isCommentRequired
            ? "Comment (required by the rule)"
            : "Comment (optional)"
      }
      required={isCommentRequired}
      action={label}
      kind={kind}
      pending={pending}
      disabled={lacksComment || [proposal, grant].some((one) => one !== undefined && Result.isFailure(one))}
      comment={comment}
      onChange={onComment}
      onBack={() => onVerdict(undefined)}
      onSubmit={(text) =>
        void onSubmit(verdict, text, { proposed: valueOf(proposal), grant: valueOf(grantOf(text)) })
      }
    >
      {note === undefined || verdict !== "approve" ? null : <p>{note}</p>}
      {original === undefined ? null : (
        <ProposalField original={original} text={proposalText} onChange={setProposalText} />
      )}
      {verdict === "approve" && canGrant ? (
        <GrantField draft={grantDraft} stepArguments={stepArguments} onChange={setGrantDraft} />
      ) : null}
    </CommentForm>
  )
}

const valueOf = <A,>(parsed: Result.Result<A, string> | undefined): A | undefined =>
  parsed === undefined ? undefined : Result.getOrUndefined(parsed)
