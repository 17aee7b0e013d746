import type { InboxApproval } from "../../../api/Console.ts"
import { UntrustedText } from "../../ui/UntrustedText.tsx"

/** What a step does on one line: the rule's sentence, or else its tool with what the agent claims or its most telling arguments. */
export const ApprovalLine = ({
  approval: { line, tool }
}: {
  readonly approval: Pick<InboxApproval, "line" | "tool">
}) => {
  if (line?.rule_summary != null) {
    return (
      <span className="row-said">
        <UntrustedText text={line.rule_summary} />
      </span>
    )
  }
  return (
    <span className="row-said row-line">
      <span className="row-tool">
        <UntrustedText text={tool} />
      </span>
      {line?.agent_summary != null ? (
        <span className="row-content">
          <span className="row-claim">agent:</span> <UntrustedText text={line.agent_summary} />
        </span>
      ) : line?.arguments != null ? (
        <span className="row-content">
          <UntrustedText text={line.arguments} />
        </span>
      ) : null}
    </span>
  )
}
