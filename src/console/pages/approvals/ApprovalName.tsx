import type { InboxApproval } from "../../../api/Console.ts"
import { UntrustedText } from "../../ui/UntrustedText.tsx"

/** What a person calls an approval: the rule's sentence, else values of the session's metadata, such as the ticket or the customer. */
export const nameOfApproval = ({ line, step_id, tool }: InboxApproval): string =>
  line?.rule_summary ?? line?.about ?? `${tool} ${step_id}`

/** The name of an approval, with what tells it from others of the same name. */
export const ApprovalName = ({ approval }: { readonly approval: InboxApproval }) => {
  const { line, step_id, tool } = approval
  const name = nameOfApproval(approval)
  const others = [line?.about ?? null, tool, step_id].filter((part) => part !== null && !name.includes(part))
  return (
    <>
      <UntrustedText text={name} />
      {others.map((part) => (
        <span key={part} className="quiet">
          {" · "}
          <UntrustedText text={part ?? ""} />
        </span>
      ))}
    </>
  )
}
