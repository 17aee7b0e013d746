import type { Approval } from "../../../domain/approvals/Approval.ts"
import { UntrustedText } from "../../ui/UntrustedText.tsx"

/** The effect of the step: the rule's sentence, or else its tool; and the agent's claim about it. */
export const ApprovalHeading = ({
  approval: { action_class, agent_summary, rule_summary, tool }
}: {
  readonly approval: Approval
}) => (
  <div className="approval-heading">
    <h2 id="approval-title" className={rule_summary === null ? "tool-name" : "approval-sentence"}>
      <UntrustedText text={rule_summary ?? tool} />
    </h2>
    <p className="quiet">
      {rule_summary === null ? null : (
        <>
          <code>
            <UntrustedText text={tool} />
          </code>{" "}
          ·{" "}
        </>
      )}
      <UntrustedText text={action_class} />
    </p>
    {agent_summary === null ? null : (
      <figure className="agent-claim">
        <figcaption>The agent’s claim, which nobody has checked</figcaption>
        <blockquote>
          <UntrustedText text={agent_summary} />
        </blockquote>
      </figure>
    )}
  </div>
)
