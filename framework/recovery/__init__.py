"""What a person does when something was lost, moved or refused: rebase, rollback, discard, replays, orphans."""
