/* Notes what a process connects, sends or listens to, by name: LD_PRELOAD=connections.so CONNECTIONS=FILE.
   One line each: `connect ADDRESS PORT`, `send ADDRESS PORT` (a datagram), `listen ADDRESS PORT`; local sockets are left out. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void note(const char *what, const struct sockaddr *to) {
  char address[INET6_ADDRSTRLEN], line[128];
  const char *file = getenv("CONNECTIONS");
  int port;
  if (file == NULL || to == NULL) return;
  if (to->sa_family == AF_INET) {
    const struct sockaddr_in *four = (const struct sockaddr_in *)to;
    inet_ntop(AF_INET, &four->sin_addr, address, sizeof address);
    port = ntohs(four->sin_port);
  } else if (to->sa_family == AF_INET6) {
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)to;
    inet_ntop(AF_INET6, &six->sin6_addr, address, sizeof address);
    port = ntohs(six->sin6_port);
  } else {
    return;
  }
  int length = snprintf(line, sizeof line, "%s %s %d\n", what, address, port);
  int handle = open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (handle < 0 || write(handle, line, length) != length) abort(); /* what is not noted must not pass */
  close(handle);
}

int connect(int handle, const struct sockaddr *to, socklen_t length) {
  static int (*next)(int, const struct sockaddr *, socklen_t);
  if (next == NULL) next = dlsym(RTLD_NEXT, "connect");
  note("connect", to);
  return next(handle, to, length);
}

ssize_t sendto(int handle, const void *data, size_t size, int flags, const struct sockaddr *to, socklen_t length) {
  static ssize_t (*next)(int, const void *, size_t, int, const struct sockaddr *, socklen_t);
  if (next == NULL) next = dlsym(RTLD_NEXT, "sendto");
  note("send", to);
  return next(handle, data, size, flags, to, length);
}

ssize_t sendmsg(int handle, const struct msghdr *message, int flags) {
  static ssize_t (*next)(int, const struct msghdr *, int);
  if (next == NULL) next = dlsym(RTLD_NEXT, "sendmsg");
  note("send", message->msg_name);
  return next(handle, message, flags);
}

int listen(int handle, int waiting) {
  static int (*next)(int, int);
  struct sockaddr_storage at;
  socklen_t length = sizeof at;
  if (next == NULL) next = dlsym(RTLD_NEXT, "listen");
  int done = next(handle, waiting);
  if (done == 0 && getsockname(handle, (struct sockaddr *)&at, &length) == 0) note("listen", (struct sockaddr *)&at);
  return done;
}
