import { AsyncResult, Atom } from "effect/reactivity"
import { useState } from "react"
import type { ApprovalRules } from "../../../api/ApprovalRules.ts"
import { refresh, useAtomValue } from "../../state/atoms.ts"
import { apiClient } from "../../state/apiClient.ts"
import { useCan } from "../../state/session.ts"
import { Button } from "../../ui/Button.tsx"
import { AsyncContent } from "../../ui/AsyncContent.tsx"
import { PageHeader } from "../../ui/PageHeader.tsx"
import { FailureNotice } from "../../ui/FailureNotice.tsx"
import { showToast } from "../../ui/Toasts.tsx"
import { useAction } from "../../ui/useAction.ts"
import {
  type RuleDraft,
  type RuleListDraft,
  isChanged,
  newRuleDraft,
  toPayload,
  toRuleListDraft
} from "./RuleDraft.ts"
import { RuleDialog } from "./RuleDialog.tsx"
import { RuleList } from "./RuleList.tsx"
import { RuleTester } from "./RuleTester.tsx"

const rulesAtom = Atom.make(apiClient.approval_rules.list())

/** The ordered list that decides what an agent's step gets. */
export default function Rules() {
  const result = useAtomValue(rulesAtom)
  // What is edited begins from an answer that is not on its way to being replaced.
  const settled = AsyncResult.isSuccess(result) && !result.waiting ? result.value : undefined
  return settled === undefined ? (
    <AsyncContent result={result} atom={rulesAtom}>
      {(rules) => <Editor key="waiting" rules={rules} />}
    </AsyncContent>
  ) : (
    <Editor key={settled.revision} rules={settled} />
  )
}

const Editor = ({ rules }: { readonly rules: ApprovalRules }) => {
  const can = useCan()
  const editable = can("rules.write")
  const [edited, setEdited] = useState<RuleListDraft>(() => toRuleListDraft(rules.rules, rules.revision))
  const [open, setOpen] = useState<RuleDraft>()
  const change = (drafts: ReadonlyArray<RuleDraft>) => setEdited({ ...edited, drafts })
  const save = useAction((over: boolean) =>
    apiClient.approval_rules.replace({
      payload: { rules: edited.drafts.map(toPayload), ...(over ? {} : { revision: edited.revision }) }
    })
  )
  const run = async (over: boolean) => {
    const saved = await save.run(over)
    if (saved === undefined) return
    showToast("The rules are saved")
    setEdited(toRuleListDraft(saved.rules, saved.revision))
    refresh(rulesAtom)
  }
  const put = (draft: RuleDraft) => {
    const known = edited.drafts.some(({ rule }) => rule.id === draft.rule.id)
    change(
      known
        ? edited.drafts.map((one) => (one.rule.id === draft.rule.id ? draft : one))
        : [...edited.drafts, draft]
    )
    setOpen(undefined)
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
                  <Button
                    onClick={() =>
                      setEdited(
                        toRuleListDraft(
                          edited.before.map(({ rule }) => rule),
                          edited.revision
                        )
                      )
                    }
                  >
                    Discard
                  </Button>
                  <Button kind="primary" pending={save.pending} onClick={() => void run(false)}>
                    Save the rules
                  </Button>
                </>
              ) : null}
              <Button kind={changed ? "plain" : "primary"} onClick={() => setOpen(newRuleDraft())}>
                New rule
              </Button>
            </>
          ) : null
        }
      >
        The first rule that matches a step decides. Where none does, a person is asked.
        {changed ? <strong className="unsaved"> There are changes that are not saved.</strong> : null}
      </PageHeader>
      {save.failure?.code === "RULES_CHANGED" ? (
        <div className="notice warn" role="alert">
          <p className="notice-title">Somebody else saved rules while you edited</p>
          <p>
            Yours were made from revision {edited.revision}, which is no longer the newest, so nothing was
            saved. Read theirs first; what you changed here is lost then. Or save yours over theirs.
          </p>
          <div className="notice-actions">
            <Button
              small
              kind="primary"
              onClick={() => {
                save.reset()
                refresh(rulesAtom)
              }}
            >
              Load theirs
            </Button>
            <Button small kind="bad" pending={save.pending} onClick={() => void run(true)}>
              Save mine over theirs
            </Button>
          </div>
        </div>
      ) : (
        <FailureNotice failure={save.failure} />
      )}
      <div className="two-columns rules">
        <RuleList drafts={edited.drafts} editable={editable} onChange={change} onEdit={setOpen} />
        <RuleTester drafts={edited.drafts} changed={changed} />
      </div>
      {open === undefined ? null : (
        <RuleDialog
          draft={open}
          listed={edited.drafts.includes(open)}
          onClose={() => setOpen(undefined)}
          onPut={put}
        />
      )}
    </>
  )
}
