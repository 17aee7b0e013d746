import { DateTime } from "effect"
import type { Approval } from "../../../domain/approvals/Approval.ts"
import { useNow } from "../../state/useNow.ts"
import { AbsoluteTime, formatSeconds } from "../../ui/Time.tsx"

/** The open window of a pending approval as a bar that runs out, and what happens then. */
export const DeadlineBar = ({ approval }: { readonly approval: Approval }) => {
  const now = useNow()
  const { escalated_at, expires_at, requested_at, stage } = approval
  const start = DateTime.toEpochMillis(escalated_at ?? requested_at)
  const end = DateTime.toEpochMillis(expires_at)
  const left = Math.max(0, end - now)
  const whole = Math.max(1, end - start)
  const isNear = left <= 60_000 || left <= whole / 10
  return (
    <section aria-label="Deadline" className={isNear ? "deadline near" : "deadline"}>
      <progress
        aria-label="Time left to decide"
        aria-valuetext={`${formatSeconds(left / 1_000)} left`}
        max={whole}
        value={left}
      />
      <p className="small">
        {stage === "admin" ? "Admins" : "Reviewers"} decide until <AbsoluteTime time={expires_at} />. If
        nobody does, {onTimeout(approval)}.
      </p>
    </section>
  )
}

const onTimeout = ({
  escalation_deadline_at,
  review_deadline_at,
  stage,
  timeout_action
}: Approval): string => {
  const end = timeout_action === "allow" ? "the step is allowed" : "the step is rejected"
  if (stage === "admin" || escalation_deadline_at === null) return end
  const seconds =
    (DateTime.toEpochMillis(escalation_deadline_at) - DateTime.toEpochMillis(review_deadline_at)) / 1_000
  return `admins have another ${formatSeconds(seconds)}, and then ${end}`
}
