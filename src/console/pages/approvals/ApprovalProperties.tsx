import type { Approval } from "../../../domain/approvals/Approval.ts"
import { Link } from "../../app/router.tsx"
import { Badge } from "../../ui/Badge.tsx"
import { UntrustedText } from "../../ui/UntrustedText.tsx"
import { AbsoluteTime } from "../../ui/Time.tsx"

/** What else is known of an approval: where it comes from, who decides until when, and what silence does. */
export const ApprovalProperties = ({ approval }: { readonly approval: Approval }) => (
  <dl className="facts">
    <div>
      <dt>Session</dt>
      <dd>
        <Link to={`/sessions/${approval.session_id}`}>what the agent did before</Link>
      </dd>
    </div>
    <div>
      <dt>Step</dt>
      <dd>
        <UntrustedText text={approval.step_id} />
      </dd>
    </div>
    {approval.task_id === null ? null : (
      <div>
        <dt>Task</dt>
        <dd>
          <Link to={`/tasks/${approval.task_id}`}>what the agent works on</Link>
        </dd>
      </div>
    )}
    <div>
      <dt>Asked</dt>
      <dd>
        <AbsoluteTime time={approval.requested_at} />
      </dd>
    </div>
    <div>
      <dt>Decided by</dt>
      <dd>
        {approval.stage === "admin" ? <Badge tone="note">admins</Badge> : "reviewers"} until{" "}
        <AbsoluteTime time={approval.expires_at} />
      </dd>
    </div>
    <div>
      <dt>In silence</dt>
      <dd>
        {approval.escalation_deadline_at !== null && approval.stage === "reviewer"
          ? "it goes to the admins"
          : approval.timeout_action === "allow"
            ? "the step is allowed"
            : "the step is rejected"}
      </dd>
    </div>
    <div>
      <dt>Digest</dt>
      <dd className="id digest" title="SHA-256 of the step and its arguments">
        {approval.arguments_digest}
      </dd>
    </div>
  </dl>
)
