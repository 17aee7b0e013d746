import type { InboxLine } from "../../../api/Console.ts"
import { UntrustedText } from "../../ui/UntrustedText.tsx"

/** The effect of a step on one line: the rule's sentence, or else its tool with the agent's claim or its most important arguments. */
export const ApprovalLine = ({
  line,
  tool
}: {
  readonly tool: string
  readonly line: Pick<InboxLine, "agent_summary" | "arguments" | "rule_summary"> | undefined
}) => {
  const { agent_summary = null, arguments: args = null, rule_summary = null } = line ?? {}
  if (rule_summary !== null) {
    return (
      <span className="row-said">
        <UntrustedText text={rule_summary} />
      </span>
    )
  }
  return (
    <span className="row-said approval-line">
      <span className="row-tool">
        <UntrustedText text={tool} />
      </span>
      {agent_summary !== null ? (
        <span className="row-content">
          <span className="row-claim">agent:</span> <UntrustedText text={agent_summary} />
        </span>
      ) : args !== null ? (
        <span className="row-content">
          <UntrustedText text={args} />
        </span>
      ) : null}
    </span>
  )
}
