import { Schema } from "effect"
import { AsyncResult, Atom } from "effect/reactivity"
import type { RetentionSettings } from "../../../api/RetentionSettings.ts"
import { apiClient } from "../../state/apiClient.ts"
import { refresh, useAtomValue } from "../../state/atoms.ts"
import { useCan } from "../../state/session.ts"
import { AsyncContent } from "../../ui/AsyncContent.tsx"
import { fieldError } from "../../ui/Failure.ts"
import { SettingsForm } from "../../ui/SettingsForm.tsx"
import { NumberField } from "../../ui/TextField.tsx"
import { useFormDraft } from "../../ui/useFormDraft.ts"

const retentionAtom = Atom.make(apiClient.retentionSettings.get())

/** The kinds of records with a retention, with the consequence of each. */
const kinds = [
  ["run_days", "Runs", "Their feedback is deleted with them. Without a number, they are kept."],
  ["feedback_days", "Feedback", "Without a number, as long as its run."],
  [
    "session_days",
    "Agent sessions",
    "Counted from the last event; their steps and approvals are deleted with them. Without a number, they are kept."
  ]
] as const

/** How long runs, feedback and sessions are kept. */
export const Retention = () => {
  const result = useAtomValue(retentionAtom)
  const current = AsyncResult.isSuccess(result) && !result.waiting ? result.value : undefined
  return (
    <section className="stack" aria-labelledby="retention">
      <h2 id="retention">Retention</h2>
      {current === undefined ? (
        <AsyncContent atom={retentionAtom}>
          {(settings) => <Days key="waiting" settings={settings} />}
        </AsyncContent>
      ) : (
        <Days key={current.revision} settings={current} />
      )}
    </section>
  )
}

const textOf = (days: number | null): string => (days === null ? "" : String(days))

const Changes = Schema.Struct({
  run_days: Schema.optionalKey(Schema.String),
  feedback_days: Schema.optionalKey(Schema.String),
  session_days: Schema.optionalKey(Schema.String)
})

const Days = ({ settings }: { readonly settings: RetentionSettings }) => {
  const editable = useCan()("data.delete")
  const draft = useFormDraft<Required<typeof Changes.Type>>("retention", Changes, {
    run_days: textOf(settings.run_days),
    feedback_days: textOf(settings.feedback_days),
    session_days: textOf(settings.session_days)
  })
  const texts = draft.value
  const numberOf = (text: string): number | null => (text.trim() === "" ? null : Number(text))
  return (
    <SettingsForm
      noun="retention settings"
      saved="Retention saved"
      changedCode="RETENTION_SETTINGS_CHANGED"
      isEditable={editable}
      draft={draft}
      replace={(overwrite) =>
        apiClient.retentionSettings.replace({
          payload: {
            run_days: numberOf(texts.run_days),
            feedback_days: numberOf(texts.feedback_days),
            session_days: numberOf(texts.session_days),
            ...(overwrite ? {} : { revision: settings.revision })
          }
        })
      }
      onLoad={() => refresh(retentionAtom)}
    >
      {(failure) => (
        <>
          {kinds.map(([name, label, hint]) => (
            <NumberField
              key={name}
              label={`${label}, days`}
              hint={hint}
              error={fieldError(failure, name)}
              className="short"
              min={1}
              max={3_650}
              step={1}
              readOnly={!editable}
              placeholder="kept"
              value={texts[name]}
              onChange={(text) => draft.set({ [name]: text })}
            />
          ))}
          {editable ? (
            <p className="notice warn">
              Within the hour after saving, a worker deletes what is older. It cannot be undone. Staged
              corrections and examples of datasets stay.
            </p>
          ) : null}
        </>
      )}
    </SettingsForm>
  )
}
