import type { Approval } from "../../../domain/approvals/Approval.ts"
import { describeProgress } from "../../../domain/approvals/Quorum.ts"
import { Link, withQuery } from "../../app/router.tsx"
import { useCan } from "../../state/session.ts"
import { Badge } from "../../ui/Badge.tsx"
import { CopyableId, CopyButton } from "../../ui/CopyButton.tsx"
import { CopyCurl } from "../../ui/CopyCurl.tsx"
import { UntrustedText } from "../../ui/UntrustedText.tsx"
import { AbsoluteTime } from "../../ui/Time.tsx"
import { TaskLink } from "../tasks/TaskLink.tsx"

/** The properties of an approval: session, step, assignee with deadline, progress of its quorum, timeout action and arguments digest. */
export const ApprovalProperties = ({ approval }: { readonly approval: Approval }) => {
  const progress = describeProgress(approval)
  const can = useCan()
  const isPending = approval.status === "pending"
  return (
    <dl className="facts">
      {can("sessions.read") ? (
        <div>
          <dt>Session</dt>
          <dd>
            <Link to={`/sessions/${approval.session_id}`}>View session</Link>
          </dd>
        </div>
      ) : null}
      <div>
        <dt>Step</dt>
        <dd>
          <UntrustedText text={approval.step_id} />{" "}
          <CopyButton label="Copy the step ID" text={approval.step_id} />
        </dd>
      </div>
      {approval.task_id === null ? null : (
        <div>
          <dt>Task</dt>
          <dd>
            <TaskLink id={approval.task_id} />
          </dd>
        </div>
      )}
      <div>
        <dt>Requested</dt>
        <dd>
          <AbsoluteTime time={approval.requested_at} />
        </dd>
      </div>
      {isPending ? (
        <div>
          <dt>Assigned to</dt>
          <dd>
            {approval.stage === "admin" ? <Badge tone="note">Admins</Badge> : "Reviewers"} until{" "}
            <AbsoluteTime time={approval.expires_at} />
          </dd>
        </div>
      ) : null}
      {progress === "" ? null : (
        <div>
          <dt>Approvals</dt>
          <dd>{progress}</dd>
        </div>
      )}
      {progress === ""
        ? null
        : approval.votes.map(({ comment, groups, voted_at, voted_by }) => (
            <div key={voted_by.id}>
              <dt>Approved by</dt>
              <dd>
                <UntrustedText text={voted_by.name} />
                {groups.length === 0 ? null : <span className="quiet"> ({groups.join(", ")})</span>},{" "}
                <AbsoluteTime time={voted_at} />
                {comment === null || comment === "" ? null : (
                  <>
                    : <UntrustedText text={comment} />
                  </>
                )}
              </dd>
            </div>
          ))}
      {can("rules.write") ? (
        <div>
          <dt>Rule</dt>
          <dd>
            <Link to={withQuery("/rules", { new: "rule", like: approval.approval_id })}>
              Make a rule that allows steps like this
            </Link>
          </dd>
        </div>
      ) : null}
      <div>
        <dt>Digest</dt>
        <dd className="id digest" title="SHA-256 of the step and its arguments">
          {approval.arguments_digest}
          <CopyButton label="Copy the digest" text={approval.arguments_digest} />
        </dd>
      </div>
      <div>
        <dt>Approval</dt>
        <dd>
          <CopyableId id={approval.approval_id} of="approval" />
          <br />
          <CopyCurl path={`/v1/agent-approvals/${approval.approval_id}`} />
        </dd>
      </div>
    </dl>
  )
}
