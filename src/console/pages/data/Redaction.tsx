import { Schema } from "effect"
import { AsyncResult, Atom } from "effect/reactivity"
import { useState } from "react"
import type { RedactionSettings } from "../../../api/RedactionSettings.ts"
import { PersonalData, type RedactionPattern } from "../../../domain/redaction/RedactionRules.ts"
import { apiClient } from "../../state/apiClient.ts"
import { refresh, useAtomValue } from "../../state/atoms.ts"
import { useCan } from "../../state/session.ts"
import { AsyncContent } from "../../ui/AsyncContent.tsx"
import { Button } from "../../ui/Button.tsx"
import { Checkbox } from "../../ui/Checkbox.tsx"
import { fieldError } from "../../ui/Failure.ts"
import { FailureNotice } from "../../ui/FailureNotice.tsx"
import { SettingsForm } from "../../ui/SettingsForm.tsx"
import { TextAreaField } from "../../ui/TextField.tsx"
import { UntrustedText } from "../../ui/UntrustedText.tsx"
import { useAction } from "../../ui/useAction.ts"
import { useFormDraft } from "../../ui/useFormDraft.ts"

const redactionAtom = Atom.make(apiClient.redactionSettings.get())

const personalNames: Readonly<Record<PersonalData, string>> = {
  email_address: "Email addresses",
  phone_number: "Phone numbers",
  card_number: "Payment card numbers",
  iban: "IBANs"
}

/** A pattern per line, `name: pattern`, as the form edits them. */
const linesOf = (patterns: ReadonlyArray<RedactionPattern>): string =>
  patterns.map(({ name, pattern }) => `${name}: ${pattern}`).join("\n")

const patternsOf = (text: string): ReadonlyArray<RedactionPattern> =>
  text.split("\n").flatMap((line) => {
    if (line.trim() === "") return []
    const colon = line.indexOf(":")
    return colon < 0
      ? [{ name: line.trim(), pattern: line.trim() }]
      : [{ name: line.slice(0, colon).trim(), pattern: line.slice(colon + 1).trim() }]
  })

/** What is removed from corrections, comments, notes and exports, besides recognizable secrets. */
export const Redaction = () => {
  const result = useAtomValue(redactionAtom)
  const current = AsyncResult.isSuccess(result) && !result.waiting ? result.value : undefined
  return (
    <section className="stack" aria-labelledby="redaction">
      <h2 id="redaction">Redaction</h2>
      {current === undefined ? (
        <AsyncContent atom={redactionAtom}>
          {(settings) => <Rules key="waiting" settings={settings} />}
        </AsyncContent>
      ) : (
        <Rules key={current.revision} settings={current} />
      )}
    </section>
  )
}

const Changes = Schema.Struct({
  patterns: Schema.optionalKey(Schema.String),
  exceptions: Schema.optionalKey(Schema.String),
  personal_data: Schema.optionalKey(Schema.Array(PersonalData)),
  redact_runs: Schema.optionalKey(Schema.Boolean)
})

const Rules = ({ settings }: { readonly settings: RedactionSettings }) => {
  const editable = useCan()("org_config.write")
  const draft = useFormDraft<Required<typeof Changes.Type>>("redaction", Changes, {
    patterns: linesOf(settings.patterns),
    exceptions: linesOf(settings.exceptions),
    personal_data: settings.personal_data,
    redact_runs: settings.redact_runs
  })
  const { personal_data, redact_runs } = draft.value
  const edited = {
    patterns: patternsOf(draft.value.patterns),
    exceptions: patternsOf(draft.value.exceptions),
    personal_data
  }
  return (
    <>
      <SettingsForm
        noun="redaction settings"
        saved="Redaction saved"
        changedCode="REDACTION_SETTINGS_CHANGED"
        isEditable={editable}
        draft={draft}
        replace={(overwrite) =>
          apiClient.redactionSettings.replace({
            payload: {
              ...edited,
              redact_runs,
              ...(overwrite ? {} : { revision: settings.revision })
            }
          })
        }
        onLoad={() => refresh(redactionAtom)}
      >
        {(failure) => (
          <>
            <p className="quiet">
              Credentials of the organization and values that look like a secret are always removed from
              corrections, comments and notes, and from exported content.
            </p>
            <fieldset className="field" disabled={!editable}>
              <legend className="legend">Personal data that is removed too</legend>
              {PersonalData.literals.map((kind) => (
                <Checkbox
                  key={kind}
                  checked={personal_data.includes(kind)}
                  onChange={(isChecked) =>
                    draft.set({
                      personal_data: PersonalData.literals.filter((one) =>
                        one === kind ? isChecked : personal_data.includes(one)
                      )
                    })
                  }
                >
                  {personalNames[kind]}
                </Checkbox>
              ))}
              <Checkbox checked={redact_runs} onChange={(isChecked) => draft.set({ redact_runs: isChecked })}>
                Also from inputs, answers and metadata of runs, before they are logged
              </Checkbox>
            </fieldset>
            {(["patterns", "exceptions"] as const).map((list) => (
              <TextAreaField
                key={list}
                label={list === "patterns" ? "Patterns" : "Exceptions"}
                hint={
                  list === "patterns"
                    ? "One per line: a name, a colon and an RE2 expression, such as Employee number: EMP-\\d{6}"
                    : "Values that stay although they match, in the same form."
                }
                error={fieldError(failure, list)}
                className="code"
                rows={3}
                spellCheck={false}
                readOnly={!editable}
                value={draft.value[list]}
                onChange={(text) => draft.set({ [list]: text })}
              />
            ))}
          </>
        )}
      </SettingsForm>
      {editable ? <Preview settings={edited} /> : null}
    </>
  )
}

/** Tries the edited rules on a text. */
const Preview = ({
  settings
}: {
  readonly settings: Pick<RedactionSettings, "patterns" | "exceptions" | "personal_data">
}) => {
  const [text, setText] = useState("")
  const preview = useAction(() => apiClient.redactionSettings.preview({ payload: { value: text, settings } }))
  const [shown, setShown] = useState<string>()
  const run = async () => {
    const done = await preview.run()
    if (done !== undefined) setShown(typeof done.value === "string" ? done.value : JSON.stringify(done.value))
  }
  return (
    <form
      className="card padded stack"
      aria-label="Try redaction"
      onSubmit={(event) => {
        event.preventDefault()
        void run()
      }}
    >
      <FailureNotice failure={preview.failure} />
      <TextAreaField
        label="Try the rules above on a text"
        hint="Nothing is stored."
        rows={2}
        value={text}
        onChange={setText}
      />
      <div className="row-actions">
        <Button type="submit" pending={preview.pending} disabled={text.trim() === ""}>
          Try
        </Button>
      </div>
      {shown === undefined ? null : (
        <p className="notice" role="status">
          <UntrustedText text={shown} />
        </p>
      )}
    </form>
  )
}
