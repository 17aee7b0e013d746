import { Effect, Option } from "effect"
import { AsyncResult, Atom } from "effect/reactivity"
import { type FormEvent, useEffect } from "react"
import type { Approval } from "../../../domain/approvals/Approval.ts"
import { type ApprovalMessage, MAX_MESSAGE_LENGTH } from "../../../domain/approvals/ApprovalMessage.ts"
import type { ApprovalId } from "../../../domain/Ids.ts"
import { hasVisibleText } from "../../../domain/VisibleText.ts"
import { apiClient } from "../../state/apiClient.ts"
import { refresh, useAtomValue } from "../../state/atoms.ts"
import { applyApproval } from "../../state/inbox.ts"
import { useKeptText } from "../../state/keptWork.ts"
import { useSession } from "../../state/session.ts"
import { AsyncContent } from "../../ui/AsyncContent.tsx"
import { Button } from "../../ui/Button.tsx"
import { FailureNotice } from "../../ui/FailureNotice.tsx"
import { TextAreaField } from "../../ui/TextField.tsx"
import { TimeOfDay } from "../../ui/Time.tsx"
import { UntrustedText } from "../../ui/UntrustedText.tsx"
import { useAction } from "../../ui/useAction.ts"

const messagesAtom = Atom.family((id: ApprovalId) =>
  Atom.make(Effect.map(apiClient.approvals.listMessages({ params: { id } }), ({ messages }) => messages))
)

/** The messages of reviewers and the agent, and the form for another one while the approval is pending. */
export const Conversation = ({
  approval: { approval_id, status },
  newest
}: {
  readonly approval: Pick<Approval, "approval_id" | "status">
  /** The number of the newest message, as the stream tells; 0: none, or not known. */
  readonly newest: number
}) => {
  const atom = messagesAtom(approval_id)
  const result = useAtomValue(atom)
  const shown = Option.getOrElse(AsyncResult.value(result), () => []).at(-1)?.number ?? 0
  useEffect(() => {
    if (newest > shown) refresh(atom)
  }, [atom, newest, shown])
  const canSend = useSession().scopes.includes("approvals.decide") && status === "pending"
  return (
    <AsyncContent atom={atom}>
      {(messages) =>
        messages.length === 0 && !canSend ? null : (
          <section aria-label="Messages">
            <h3>Messages</h3>
            <MessageList messages={messages} />
            {canSend ? <MessageForm id={approval_id} onSent={() => refresh(atom)} /> : null}
          </section>
        )
      }
    </AsyncContent>
  )
}

const MessageList = ({ messages }: { readonly messages: ReadonlyArray<ApprovalMessage> }) => (
  <ol className="messages" aria-live="polite">
    {messages.map(({ number, sender, sent_at, sent_by, text }) => (
      <li key={number} className="message">
        <p className="quiet small">
          <UntrustedText text={sent_by.name} />
          {sender === "agent" ? ", agent" : null} · <TimeOfDay time={sent_at} />
        </p>
        <blockquote>
          <UntrustedText text={text} />
        </blockquote>
      </li>
    ))}
  </ol>
)

const MessageForm = ({ id, onSent }: { readonly id: ApprovalId; readonly onSent: () => void }) => {
  const kept = useKeptText(`message ${id}`)
  const send = useAction((text: string) =>
    apiClient.approvals.sendMessage({ params: { id }, payload: { text } }).pipe(
      Effect.tapError((error) =>
        Effect.sync(() => {
          if ("approval" in error) applyApproval(error.approval)
        })
      )
    )
  )
  const submit = async (event: FormEvent) => {
    event.preventDefault()
    // After a failure the form stays as it is, with its text.
    if ((await send.run(kept.work.trim())) === undefined) return
    kept.discard()
    onSent()
  }
  return (
    <form className="message-form" onSubmit={(event) => void submit(event)}>
      <FailureNotice failure={send.failure} />
      <TextAreaField
        label="Message to the agent"
        hint="It decides nothing: the approval stays pending."
        rows={2}
        maxLength={MAX_MESSAGE_LENGTH}
        readOnly={send.pending}
        value={kept.work}
        onChange={(text) => kept.setWork(text)}
      />
      <div>
        <Button small type="submit" pending={send.pending} disabled={!hasVisibleText(kept.work)}>
          Send
        </Button>
      </div>
    </form>
  )
}
