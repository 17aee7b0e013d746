import type { Canary, CanaryArm } from "../../../domain/tasks/Canary.ts"
import type { Task } from "../../../domain/tasks/Task.ts"
import { refresh } from "../../state/atoms.ts"
import { apiClient } from "../../state/apiClient.ts"
import { useCan } from "../../state/session.ts"
import { canaryAtom, releasesAtom, taskAtom } from "../../state/tasks.ts"
import { AsyncContent } from "../../ui/AsyncContent.tsx"
import { Badge } from "../../ui/Badge.tsx"
import { ConfirmButton } from "../../ui/ConfirmButton.tsx"
import { Table } from "../../ui/Table.tsx"
import { showToast } from "../../ui/Toasts.tsx"
import { formatPercent } from "./Comparisons.tsx"

/** A task's canary: its share of the runs, the feedback on both releases, and buttons to promote and to stop it. */
export const CanaryPanel = ({ task }: { readonly task: Task }) => {
  return (
    <section className="card padded stack" aria-label="Canary">
      <AsyncContent atom={canaryAtom(task.id)}>
        {(canary) => <CanaryView task={task} canary={canary} />}
      </AsyncContent>
    </section>
  )
}

const CanaryView = ({ canary, task }: { readonly canary: Canary; readonly task: Task }) => {
  const can = useCan()
  const { difference, release, share } = canary
  const params = { id: task.id }
  const reload = (message: string) => () => {
    refresh(taskAtom(task.id))
    refresh(releasesAtom(task.id))
    showToast(message)
  }
  return (
    <>
      <div className="change-head">
        <h2>Canary</h2>
        {difference === null ? (
          <Badge tone="quiet">No feedback on both yet</Badge>
        ) : difference.always_low > 0 ? (
          <Badge tone="good">Canary is better</Badge>
        ) : difference.always_high < 0 ? (
          <Badge tone="bad">Canary is worse</Badge>
        ) : (
          <Badge tone="quiet">No significant difference</Badge>
        )}
      </div>
      <p>
        Release {release.number} answers {formatPercent(share)} of the runs.
      </p>
      <Table columns={["Release", "Correct", "Neutral", "Incorrect", "Share correct"]}>
        <ArmRow name="Canary" arm={canary.canary} />
        <ArmRow name="Live" arm={canary.live} />
      </Table>
      {difference === null ? null : (
        <p className="quiet small">
          Looking often finds a difference by chance. “Better” and “worse” mean bounds that hold at all looks
          together: {formatPercent(difference.always_low)} to {formatPercent(difference.always_high)}. For one
          look: {formatPercent(difference.low)} to {formatPercent(difference.high)}.
        </p>
      )}
      {can("tasks.write") ? (
        <div className="dialog-actions">
          <ConfirmButton
            label="Stop canary"
            title="Stop this canary?"
            act={() => apiClient.canaries.stop({ params })}
            onDone={reload("Canary stopped")}
          >
            <p>The live release answers all runs again.</p>
          </ConfirmButton>
          <ConfirmButton
            kind="primary"
            label="Promote canary"
            title="Promote this canary?"
            confirmLabel="Promote"
            act={() => apiClient.releases.create({ params, payload: { release_id: release.id } })}
            onDone={reload("Canary promoted")}
          >
            <p>It answers all new runs. You can roll back to an earlier release.</p>
          </ConfirmButton>
        </div>
      ) : null}
    </>
  )
}

const ArmRow = ({ arm, name }: { readonly name: string; readonly arm: CanaryArm }) => (
  <tr>
    <td>{name}</td>
    <td data-label="Correct">{arm.positive.toLocaleString("en")}</td>
    <td data-label="Neutral">{arm.neutral.toLocaleString("en")}</td>
    <td data-label="Incorrect">{arm.negative.toLocaleString("en")}</td>
    <td data-label="Share correct">
      {arm.positive_share === null
        ? "–"
        : `${formatPercent(arm.positive_share.value)} (${formatPercent(arm.positive_share.low)} to ${formatPercent(arm.positive_share.high)})`}
    </td>
  </tr>
)
