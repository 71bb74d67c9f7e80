// Whether the user is logged in. In: the receiver's answer. Out: whether a login is needed. Why: beyond loopback it asks for a token.
import { feed } from '../feed/feed.svelte';
import { receiver, waitWords } from './receiver.svelte';
import { ask, login, logout, on, refusalOf, type Session } from './api';

/** The facts of a session that the page needs. */
type Known = Pick<Session, 'version' | 'login_required' | 'logged_in'>;

const LOGGED_OUT: Known = { version: '', login_required: true, logged_in: false };

class SessionState {
  known = $state.raw<Known | null>(null);
  refused = $state('');

  constructor() {
    // A session ends by the clock, or with its token; any answer may be the one that says so.
    on.login = () => (this.known = LOGGED_OUT);
    void this.check();
  }

  get needsLogin(): boolean {
    return (
      feed.link.state === 'login' ||
      feed.problem?.status === 401 ||
      (this.known !== null && this.known.login_required && !this.known.logged_in)
    );
  }

  async check(): Promise<void> {
    try {
      const answer = await ask<Session>('session');
      this.known = answer;
      receiver.limits = answer.limits;
      waitWords.known = answer.wait_words;
    } catch (error) {
      if (refusalOf(error).status === 401) this.known = LOGGED_OUT;
    }
  }

  async login(token: string): Promise<boolean> {
    try {
      await login(token);
    } catch (error) {
      const { detail, title } = refusalOf(error);
      this.refused = detail || title;
      return false;
    }
    this.refused = '';
    location.reload();
    return true;
  }

  /** The page reloads: its content is not for the next user. */
  async logout(): Promise<void> {
    await logout().catch(() => undefined);
    location.reload();
  }
}

export const session = new SessionState();
