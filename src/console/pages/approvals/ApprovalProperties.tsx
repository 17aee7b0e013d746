import type { Approval } from "../../../domain/approvals/Approval.ts"
import { Link } from "../../app/router.tsx"
import { Badge } from "../../ui/Badge.tsx"
import { UntrustedText } from "../../ui/UntrustedText.tsx"
import { AbsoluteTime } from "../../ui/Time.tsx"

/** The properties of an approval: session, step, assignee with deadline, timeout action and arguments digest. */
export const ApprovalProperties = ({ approval }: { readonly approval: Approval }) => (
  <dl className="facts">
    <div>
      <dt>Session</dt>
      <dd>
        <Link to={`/sessions/${approval.session_id}`}>View session</Link>
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
          <Link to={`/tasks/${approval.task_id}`}>View task</Link>
        </dd>
      </div>
    )}
    <div>
      <dt>Requested</dt>
      <dd>
        <AbsoluteTime time={approval.requested_at} />
      </dd>
    </div>
    <div>
      <dt>Assigned to</dt>
      <dd>
        {approval.stage === "admin" ? <Badge tone="note">Admins</Badge> : "Reviewers"} until{" "}
        <AbsoluteTime time={approval.expires_at} />
      </dd>
    </div>
    <div>
      <dt>On timeout</dt>
      <dd>
        {approval.escalation_deadline_at !== null && approval.stage === "reviewer"
          ? "Escalate to admins"
          : approval.timeout_action === "allow"
            ? "Allow the step"
            : "Reject the step"}
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
