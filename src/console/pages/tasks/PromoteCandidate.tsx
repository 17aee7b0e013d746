import { Effect, Option, Schema } from "effect"
import { AsyncResult } from "effect/reactivity"
import { useState } from "react"
import type { Comparison } from "../../../domain/tasks/Comparison.ts"
import { refresh, useAtomValue } from "../../state/atoms.ts"
import { releasesAtom, taskAtom } from "../../state/tasks.ts"
import { useKeptDialog } from "../../state/keptWork.ts"
import { apiClient } from "../../state/apiClient.ts"
import { Button } from "../../ui/Button.tsx"
import { fieldError } from "../../ui/Failure.ts"
import { FailureNotice } from "../../ui/FailureNotice.tsx"
import { FormDialog } from "../../ui/FormDialog.tsx"
import { RadioField } from "../../ui/RadioField.tsx"
import { NumberField, TextAreaField } from "../../ui/TextField.tsx"
import { useAction } from "../../ui/useAction.ts"
import { useFormDraft } from "../../ui/useFormDraft.ts"
import { type ComparedReleases, ReleaseLabel } from "./ComparedSides.tsx"
import { formatPercent } from "./Comparisons.tsx"

/** Refusals that `force` overrides. */
const overridable: ReadonlySet<string | undefined> = new Set(["CANDIDATE_LOST", "LIVE_RELEASE_CHANGED"])

const Changes = Schema.Struct({
  reason: Schema.optionalKey(Schema.String),
  role: Schema.optionalKey(Schema.Literals(["live", "canary"])),
  /** Percentage of the runs that it answers as a canary. */
  percent: Schema.optionalKey(Schema.String)
})

interface Props {
  readonly comparison: Comparison
  readonly releases: ComparedReleases
  /** Called with the new role of the candidate. */
  readonly onDone: (role: "live" | "canary") => void
}

/** The button that promotes a comparison's candidate. If it is refused because it lost, or is outdated, it can be forced with a reason. */
export const PromoteCandidate = (props: Props) => {
  const { id, task_id } = props.comparison
  const keptAs = `promote ${id}`
  const dialog = useKeptDialog(keptAs)
  return (
    <>
      <Button
        kind="primary"
        onClick={() => {
          // Another release may have become live since the page was opened.
          refresh(taskAtom(task_id))
          refresh(releasesAtom(task_id))
          dialog.open()
        }}
      >
        Promote candidate
      </Button>
      {dialog.isOpen ? <PromotionDialog {...props} keptAs={keptAs} onClose={dialog.close} /> : null}
    </>
  )
}

const PromotionDialog = ({
  comparison: { id, live_release_id, summary, task_id },
  keptAs,
  onClose,
  onDone,
  releases: { baseline, isCurrent, live }
}: Props & { readonly keptAs: string; readonly onClose: () => void }) => {
  const draft = useFormDraft<Required<typeof Changes.Type>>(keptAs, Changes, {
    reason: "",
    role: "live",
    percent: ""
  })
  const { percent, reason, role } = draft.value
  const task = Option.getOrUndefined(AsyncResult.value(useAtomValue(taskAtom(task_id))))
  /** Whether the release was refused in a way that `force` overrides. It stays so while the forced one is in progress. */
  const [refused, setRefused] = useState(false)
  const isCanary = role === "canary"
  const action = useAction((forced: boolean) => {
    const candidate = { comparison_id: id, ...(forced ? { force: true, reason: reason.trim() } : {}) }
    const params = { id: task_id }
    return isCanary
      ? Effect.asVoid(
          apiClient.canaries.start({ params, payload: { ...candidate, share: Number(percent) / 100 } })
        )
      : Effect.asVoid(apiClient.releases.create({ params, payload: candidate }))
  })
  const canForce = refused || overridable.has(action.failure?.code)
  const submit = async () => {
    setRefused(canForce)
    if ((await action.runResult(canForce)) === undefined) return
    onClose()
    onDone(isCanary ? "canary" : "live")
  }
  return (
    <FormDialog
      title="Promote this candidate?"
      draft={draft}
      submit={canForce ? "Promote nevertheless" : "Promote"}
      kind={canForce ? "bad" : "primary"}
      pending={action.pending}
      disabled={(canForce && reason.trim() === "") || (isCanary && percent.trim() === "")}
      onSubmit={submit}
      onClose={onClose}
    >
      <p>
        New runs will use this release. The candidate agreed with {formatPercent(summary.candidate.agreement)}{" "}
        of the examples; <ReleaseLabel id={live_release_id} release={baseline} /> agreed with{" "}
        {formatPercent(summary.live.agreement)}. You can roll back to an earlier release.
      </p>
      {isCurrent !== false ? null : (
        <p className="notice warn">
          That release is no longer live. The candidate was not compared with what is live now
          {live === undefined ? null : (
            <>
              , <ReleaseLabel id={live.id} release={live} />
            </>
          )}
          . Run a new comparison to know which one is better.
        </p>
      )}
      <RadioField
        legend="It answers"
        options={[
          ["live", "all new runs, as the live release"],
          ["canary", "a share of them, as a canary"]
        ]}
        value={isCanary ? "canary" : "live"}
        onChange={(role) => draft.set({ role })}
      />
      {isCanary ? (
        <NumberField
          label="Percentage of the runs, as a canary"
          hint="0.1 to 99."
          error={fieldError(action.failure, "share")}
          className="short"
          min={0.1}
          max={99}
          value={percent}
          onChange={(percent) => draft.set({ percent })}
        />
      ) : task === undefined || task.canary_release_id === null ? null : (
        <p className="notice warn">This ends the canary that is running.</p>
      )}
      <FailureNotice failure={action.failure} />
      {canForce ? (
        <TextAreaField
          label="Reason to promote it nevertheless"
          hint="Kept in the audit log."
          rows={2}
          required
          maxLength={4_000}
          value={reason}
          onChange={(reason) => draft.set({ reason })}
        />
      ) : null}
    </FormDialog>
  )
}
