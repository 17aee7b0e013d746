import { Schema } from "effect"
import { AsyncResult, Atom } from "effect/reactivity"
import type { FeedbackSettings } from "../../../api/FeedbackSettings.ts"
import { MAX_ORIGINS } from "../../../domain/network/WebOrigin.ts"
import { apiClient } from "../../state/apiClient.ts"
import { refresh, useAtomValue } from "../../state/atoms.ts"
import { useCan } from "../../state/session.ts"
import { AsyncContent } from "../../ui/AsyncContent.tsx"
import { fieldError } from "../../ui/Failure.ts"
import { PageHeader } from "../../ui/PageHeader.tsx"
import { SettingsForm } from "../../ui/SettingsForm.tsx"
import { TextAreaField } from "../../ui/TextField.tsx"
import { useFormDraft } from "../../ui/useFormDraft.ts"

const settingsAtom = Atom.make(apiClient.feedbackSettings.get())

/** The web origins whose pages may send feedback of end users. */
export default function EndUserFeedback() {
  const result = useAtomValue(settingsAtom)
  // Editing starts from loaded settings that are not being refreshed.
  const current = AsyncResult.isSuccess(result) && !result.waiting ? result.value : undefined
  return (
    <div className="stack">
      <PageHeader title="End-user feedback">
        The pages of these origins may send the feedback of your users to Countersign, with a feedback token
        that your server gives them.
      </PageHeader>
      {current === undefined ? (
        <AsyncContent atom={settingsAtom}>
          {(settings) => <Origins key="waiting" settings={settings} />}
        </AsyncContent>
      ) : (
        <Origins key={current.revision} settings={current} />
      )}
    </div>
  )
}

const Changes = Schema.Struct({ text: Schema.optionalKey(Schema.String) })

const Origins = ({ settings }: { readonly settings: FeedbackSettings }) => {
  const editable = useCan()("org_config.write")
  const draft = useFormDraft("end-user feedback", Changes, { text: settings.allowed_origins.join("\n") })
  const { text } = draft.value
  const allowed_origins = text.split(/\s+/).filter((origin) => origin !== "")
  return (
    <SettingsForm
      noun="origins"
      saved="Allowed origins saved"
      changedCode="FEEDBACK_SETTINGS_CHANGED"
      isEditable={editable}
      draft={draft}
      replace={(overwrite) =>
        apiClient.feedbackSettings.replace({
          payload: { allowed_origins, ...(overwrite ? {} : { revision: settings.revision }) }
        })
      }
      onLoad={() => refresh(settingsAtom)}
    >
      {(failure) => (
        <TextAreaField
          label="Allowed origins"
          hint={`One per line, such as https://app.example.com, at most ${MAX_ORIGINS}. There are no wildcards. Without any, no page may send feedback; apps outside of browsers need none.`}
          error={fieldError(failure, "allowed_origins")}
          className="code"
          rows={Math.min(MAX_ORIGINS, Math.max(4, allowed_origins.length + 1))}
          spellCheck={false}
          readOnly={!editable}
          value={text}
          onChange={(text) => draft.set({ text })}
        />
      )}
    </SettingsForm>
  )
}
