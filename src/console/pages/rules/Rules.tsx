import { Effect, Schema } from "effect"
import { AsyncResult } from "effect/reactivity"
import { useState } from "react"
import type { ApprovalRules } from "../../../api/ApprovalRules.ts"
import { ApprovalId } from "../../../domain/Ids.ts"
import { useQueryParameter } from "../../app/router.tsx"
import { refresh, useAtomValue } from "../../state/atoms.ts"
import { apiClient } from "../../state/apiClient.ts"
import { rulesAtom } from "../../state/rules.ts"
import { useCan } from "../../state/session.ts"
import { Button } from "../../ui/Button.tsx"
import { AsyncContent } from "../../ui/AsyncContent.tsx"
import { PageHeader } from "../../ui/PageHeader.tsx"
import { ConflictNotice } from "../../ui/ConflictNotice.tsx"
import { FailureNotice } from "../../ui/FailureNotice.tsx"
import { KeptWorkNotice } from "../../ui/KeptWorkNotice.tsx"
import { useKeptDialog, useKeptWork } from "../../state/keptWork.ts"
import { showToast } from "../../ui/Toasts.tsx"
import { Tabs } from "../../ui/Tabs.tsx"
import { useAction } from "../../ui/useAction.ts"
import { PastSteps } from "./PastSteps.tsx"
import {
  type RuleDraft,
  type RuleListDraft,
  addRule,
  isChanged,
  newRuleDraft,
  ruleLike,
  toPayload,
  toRuleListDraft
} from "./RuleDraft.ts"
import { restoreRules, toStoredRules } from "./keptRules.ts"
import { useOpenedByAddress } from "../../ui/useOpenedByAddress.ts"
import { EDITED_RULE, RuleDialog } from "./RuleDialog.tsx"
import { RuleList } from "./RuleList.tsx"
import { RuleTester } from "./RuleTester.tsx"
import { ShadowRules } from "./ShadowRules.tsx"
import { Suggestions } from "./Suggestions.tsx"

/** Reads the rules, and shows them if they are another revision. */
const refreshIfNewer = (revision: number): Promise<void> =>
  Effect.runPromise(
    Effect.match(apiClient.approvalRules.get(), {
      // The next look may succeed.
      onFailure: () => undefined,
      onSuccess: (saved) => {
        if (saved.revision !== revision) refresh(rulesAtom)
      }
    })
  )

/** A rule like the step of an approval; an empty one if the approval cannot be read. */
const draftLike = (id: ApprovalId): Promise<RuleDraft> =>
  Effect.runPromise(
    Effect.match(apiClient.approvals.get({ params: { id } }), {
      onFailure: () => newRuleDraft(),
      onSuccess: ruleLike
    })
  )

const isApprovalId = Schema.is(ApprovalId)

/** The panel below the rules. */
const panels = [
  ["past", "Past steps"],
  ["shadow", "Shadow rules"],
  ["suggestions", "Suggestions"]
] as const
type Panel = (typeof panels)[number][0]

/** The ordered approval rules, edited as a draft and saved as a whole. */
export default function Rules() {
  const result = useAtomValue(rulesAtom)
  // Here, because the editor starts again with each revision.
  const [panel, setPanel] = useState<Panel>("past")
  // Editing starts from a loaded list that is not being refreshed.
  const current = AsyncResult.isSuccess(result) && !result.waiting ? result.value : undefined
  return current === undefined ? (
    <AsyncContent atom={rulesAtom}>
      {(rules) => <Editor key="waiting" rules={rules} panel={panel} onPanel={setPanel} />}
    </AsyncContent>
  ) : (
    <Editor key={current.revision} rules={current} panel={panel} onPanel={setPanel} />
  )
}

const Editor = ({
  onPanel,
  panel,
  rules
}: {
  readonly rules: ApprovalRules
  readonly panel: Panel
  readonly onPanel: (panel: Panel) => void
}) => {
  const can = useCan()
  const editable = can("rules.write")
  const kept = useKeptWork<RuleListDraft>({
    name: "rules",
    base: String(rules.revision),
    initial: () => toRuleListDraft(rules.rules, rules.revision),
    toStored: toStoredRules,
    restore: restoreRules
  })
  const { setWork: setEdited, work: edited } = kept
  const dialog = useKeptDialog(EDITED_RULE)
  const [opened, setOpened] = useState(newRuleDraft)
  const open = (draft: RuleDraft) => {
    setOpened(draft)
    dialog.open()
  }
  const example = useQueryParameter("like")
  useOpenedByAddress("rule", () => {
    if (!editable) return
    if (isApprovalId(example)) void draftLike(example).then(open)
    else open(newRuleDraft())
  })
  const change = (drafts: ReadonlyArray<RuleDraft>) => setEdited({ ...edited, drafts })
  const save = useAction((overwrite: boolean) =>
    apiClient.approvalRules.replace({
      payload: { rules: edited.drafts.map(toPayload), ...(overwrite ? {} : { revision: edited.revision }) }
    })
  )
  const run = async (overwrite: boolean) => {
    const saved = await save.run(overwrite)
    if (saved === undefined) return
    showToast("Rules saved")
    setEdited(toRuleListDraft(saved.rules, saved.revision))
    refresh(rulesAtom)
  }
  const put = (draft: RuleDraft) => {
    const isListed = edited.drafts.some(({ rule }) => rule.id === draft.rule.id)
    if (isListed) change(edited.drafts.map((one) => (one.rule.id === draft.rule.id ? draft : one)))
    else {
      const { drafts, place } = addRule(edited.drafts, draft)
      change(drafts)
      if (place < edited.drafts.length) {
        showToast(`Added as rule ${place + 1}, above the rule that matches all its steps`)
      }
    }
    dialog.close()
  }
  const changed = isChanged(edited)
  return (
    <>
      <PageHeader
        title="Rules"
        aside={
          editable ? (
            <>
              {changed ? (
                <>
                  <Button disabled={save.pending} onClick={kept.discard}>
                    Discard changes
                  </Button>
                  <Button kind="primary" pending={save.pending} onClick={() => void run(false)}>
                    Save rules
                  </Button>
                </>
              ) : null}
              <Button
                kind={changed ? "plain" : "primary"}
                disabled={save.pending}
                onClick={() => open(newRuleDraft())}
              >
                New rule
              </Button>
            </>
          ) : null
        }
      >
        The first rule that matches a step decides. Without a match, approval is required.
        {changed ? <strong className="unsaved"> Unsaved changes.</strong> : null}
      </PageHeader>
      {save.failure?.code === "RULES_CHANGED" ? (
        <ConflictNotice
          noun="rules"
          onLoad={() => {
            save.reset()
            kept.discard()
            refresh(rulesAtom)
          }}
          onOverwrite={() => void run(true)}
          pending={save.pending}
        >
          Your changes are based on revision {edited.revision}, which is no longer the newest.
        </ConflictNotice>
      ) : (
        <FailureNotice failure={save.failure} />
      )}
      {kept.isRestored && changed && save.failure === undefined ? (
        <KeptWorkNotice onDiscard={kept.discard}>
          {edited.revision === rules.revision ? undefined : (
            <p>
              They are based on revision {edited.revision}; the saved rules are of revision {rules.revision}{" "}
              now. Saving asks what to do.
            </p>
          )}
        </KeptWorkNotice>
      ) : null}
      {/* The saved rules replace the edited ones: a change that was made meanwhile would be lost. */}
      <div className="two-columns rules" inert={save.pending}>
        <RuleList
          drafts={edited.drafts}
          editable={editable}
          saved={changed ? undefined : rules.warnings}
          onChange={change}
          onEdit={open}
          onLook={() => {
            // The editor starts again with a new revision, so that nothing may be open.
            if (!dialog.isOpen) void refreshIfNewer(edited.revision)
          }}
        />
        <RuleTester drafts={edited.drafts} changed={changed} />
      </div>
      <div className="rules-tools" inert={save.pending}>
        <Tabs label="Before you save" options={panels} selected={panel} onSelect={onPanel} />
        {panel === "past" ? (
          <PastSteps drafts={edited.drafts} />
        ) : panel === "suggestions" ? (
          <Suggestions drafts={edited.drafts} editable={editable} onChange={change} />
        ) : (
          <ShadowRules
            drafts={edited.drafts}
            changed={changed}
            editable={editable}
            revision={edited.revision}
            onEdit={change}
            onPromoted={(promoted) => {
              setEdited(toRuleListDraft(promoted.rules, promoted.revision))
              refresh(rulesAtom)
            }}
          />
        )}
      </div>
      {dialog.isOpen ? (
        <RuleDialog
          draft={opened}
          isListed={(id) => edited.drafts.some(({ rule }) => rule.id === id)}
          onClose={dialog.close}
          onSubmit={put}
        />
      ) : null}
    </>
  )
}
