import type { InboxApproval } from "../../../api/Console.ts"
import { UntrustedText } from "../../ui/UntrustedText.tsx"

/** What a person calls an approval: the rule's sentence, else values of the session's metadata, such as the ticket or the customer. */
export const nameOfApproval = ({ line, step_id, tool }: InboxApproval): string =>
  line?.rule_summary ?? line?.about ?? `${tool} ${step_id}`

/** The name of an approval, with the metadata of its session after the rule's sentence. `showsTool`: it is not named nearby. */
export const ApprovalName = ({
  approval,
  showsTool = false
}: {
  readonly approval: InboxApproval
  readonly showsTool?: boolean
}) => {
  const { line, tool } = approval
  const name = nameOfApproval(approval)
  const others = [
    line === undefined || line.rule_summary === null ? null : line.about,
    showsTool && !name.includes(tool) ? tool : null
  ]
  return (
    <>
      <UntrustedText text={name} />
      {others.map((part) =>
        part === null ? null : (
          <span key={part} className="quiet">
            {" · "}
            <UntrustedText text={part} />
          </span>
        )
      )}
    </>
  )
}
