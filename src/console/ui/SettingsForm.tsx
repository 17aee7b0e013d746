import type { Effect } from "effect"
import type { FormEvent, ReactNode } from "react"
import { Button } from "./Button.tsx"
import { ConflictNotice } from "./ConflictNotice.tsx"
import type { Failure } from "./Failure.ts"
import { FailureNotice } from "./FailureNotice.tsx"
import { KeptWorkNotice } from "./KeptWorkNotice.tsx"
import { showToast } from "./Toasts.tsx"
import { useAction } from "./useAction.ts"
import type { FormDraft } from "./useFormDraft.ts"

/** A form of settings that are replaced as a whole, with a question if somebody else saved them meanwhile. */
export const SettingsForm = <E,>({
  actions,
  changedCode,
  children,
  draft,
  isEditable,
  noun,
  onLoad,
  replace,
  saved
}: {
  /** What the settings are called, in the plural, such as "origins". */
  readonly noun: string
  /** Confirms that they were saved. */
  readonly saved: string
  /** The problem's code if the settings are no longer those that were loaded. */
  readonly changedCode: string
  readonly isEditable: boolean
  /** The fields, which are kept until they are saved. */
  readonly draft: Pick<FormDraft<object>, "isChanged" | "isRestored" | "isOverwriting" | "discard">
  /** Saves them. `overwrite`: also if they were saved elsewhere meanwhile. */
  readonly replace: (overwrite: boolean) => Effect.Effect<unknown, E>
  /** Reads the saved settings. */
  readonly onLoad: () => void
  /** Further buttons, before the one that saves. */
  readonly actions?: ReactNode
  readonly children: (failure: Failure | undefined) => ReactNode
}) => {
  const save = useAction(replace)
  const isRefused = save.failure?.code === changedCode
  const isConflict = isRefused || draft.isOverwriting
  const load = () => {
    draft.discard()
    onLoad()
  }
  const run = async (overwrite: boolean) => {
    if ((await save.runResult(overwrite)) === undefined) return
    showToast(saved)
    load()
  }
  return (
    <form
      className="card padded stack"
      onSubmit={(event: FormEvent) => {
        event.preventDefault()
        if (!draft.isOverwriting) void run(false)
      }}
    >
      {draft.isRestored && !isConflict ? <KeptWorkNotice onDiscard={draft.discard} /> : null}
      {isConflict ? (
        <ConflictNotice
          noun={noun}
          onLoad={() => {
            save.reset()
            load()
          }}
          onOverwrite={() => void run(true)}
          pending={save.pending}
        />
      ) : null}
      {isRefused ? null : <FailureNotice failure={save.failure} />}
      {/* The saved settings replace the edited ones: a change that was made meanwhile would be lost. */}
      <div className="stack" inert={save.pending}>
        {children(save.failure)}
      </div>
      {isEditable ? (
        <div className="row-actions">
          {actions}
          <Button
            kind="primary"
            type="submit"
            pending={save.pending}
            disabled={!draft.isChanged || draft.isOverwriting}
          >
            Save
          </Button>
        </div>
      ) : null}
    </form>
  )
}
