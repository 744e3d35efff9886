/* The admission log's files: whoever takes over goes on exactly where the last one stopped. */
#include "check.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "queue-core/log_file.h"
#include "runtime/fault.h"

enum { SMALL = 4096 };

static char folder[64];

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/urr-log-file-XXXXXX");
    assert_non_null(mkdtemp(folder));
    return 0;
}

static int remove_folder(void **state)
{
    char command[96];
    (void)state;
    (void)snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

static struct log_file *open_file(int64_t max_bytes)
{
    struct log_file *file = NULL;
    struct fault f;
    int rc = log_file_open(folder, max_bytes, 3, &file, &f);
    if (rc != 0)
        fail_msg("%s", f.text);
    return file;
}

static void append(struct log_file *file, const char *event, const char *id)
{
    char line[128];
    struct fault f;
    (void)snprintf(line, sizeof line, "{\"event\":\"%s\",\"id\":\"%s\",\"k\":\"join\"}\n", event,
                   id);
    assert_int_equal(log_file_append(file, event, id, line, strlen(line), &f), 0);
}

static void path_of(unsigned number, char out[128])
{
    (void)snprintf(out, 128, "%s/admission-%06u.jsonl", folder, number);
}

static long size_of(unsigned number)
{
    char path[128];
    path_of(number, path);
    int fd = open(path, O_RDONLY);
    long size = fd < 0 ? -1 : (long)lseek(fd, 0, SEEK_END);
    if (fd >= 0)
        (void)close(fd);
    return size;
}

static void write_raw(unsigned number, const char *text)
{
    char path[128];
    path_of(number, path);
    FILE *out = fopen(path, "a");
    assert_non_null(out);
    assert_true(fputs(text, out) >= 0);
    assert_int_equal(fclose(out), 0);
}

static void the_next_writer_knows_every_position(void **state)
{
    (void)state;
    struct log_file *file = open_file(1 << 20);
    assert_null(log_file_position(file, "a"));
    append(file, "a", "1-0");
    append(file, "b", "2-0");
    append(file, "a", "3-1");
    log_file_close(file);
    file = open_file(1 << 20);
    assert_string_equal(log_file_position(file, "a"), "3-1");
    assert_string_equal(log_file_position(file, "b"), "2-0");
    assert_null(log_file_position(file, "c"));
    log_file_close(file);
}

static void a_half_written_line_is_cut_off_and_written_again(void **state)
{
    (void)state;
    struct log_file *file = open_file(1 << 20);
    append(file, "a", "1-0");
    log_file_close(file);
    long size = size_of(1);
    write_raw(1, "{\"event\":\"a\",\"id\":\"2-0\",\"k\":\"jo");
    file = open_file(1 << 20);
    assert_string_equal(log_file_position(file, "a"), "1-0");
    assert_int_equal(size_of(1), size);
    log_file_close(file);
    write_raw(1, "garbage after a power cut\n{\"event\":\"a\",\"id\":\"9-0\"}\n");
    file = open_file(1 << 20);
    assert_string_equal(log_file_position(file, "a"), "1-0");
    log_file_close(file);
}

static void a_new_file_carries_the_positions_and_old_ones_go(void **state)
{
    (void)state;
    char id[24];
    struct log_file *file = open_file(SMALL);
    append(file, "quiet", "1-0");
    for (int i = 1; i <= 1000; i++) {
        (void)snprintf(id, sizeof id, "%d-0", i);
        append(file, "busy", id);
    }
    log_file_close(file);
    assert_int_equal(size_of(1), -1);
    file = open_file(SMALL);
    assert_string_equal(log_file_position(file, "quiet"), "1-0");
    assert_string_equal(log_file_position(file, "busy"), "1000-0");
    log_file_close(file);
}

static void a_file_just_begun_does_not_forget_the_one_before(void **state)
{
    (void)state;
    struct log_file *file = open_file(1 << 20);
    append(file, "a", "7-0");
    log_file_close(file);
    write_raw(2, "{\"positions\":{\"a\":\"7-");
    file = open_file(1 << 20);
    assert_string_equal(log_file_position(file, "a"), "7-0");
    append(file, "a", "8-0");
    log_file_close(file);
    file = open_file(1 << 20);
    assert_string_equal(log_file_position(file, "a"), "8-0");
    log_file_close(file);
}

static void only_one_process_writes(void **state)
{
    (void)state;
    struct log_file *file = open_file(1 << 20), *second = NULL;
    struct fault f;
    assert_int_equal(log_file_open(folder, 1 << 20, 3, &second, &f), RC_RETRY);
    log_file_close(file);
    assert_int_equal(log_file_open(folder, 1 << 20, 3, &second, &f), 0);
    log_file_close(second);
    assert_int_equal(log_file_open("/proc/no/such/folder", 1, 3, &second, &f), RC_FATAL);
}

static void count_event(const char *event, void *arg)
{
    (void)event;
    ++*(int *)arg;
}

static void the_number_of_events_is_bounded_and_the_quietest_goes(void **state)
{
    (void)state;
    char event[24], id[24];
    int count = 0;
    struct log_file *file = open_file(1 << 20);
    for (int i = 0; i <= LOG_FILE_MAX_EVENTS; i++) {
        (void)snprintf(event, sizeof event, "e%d", i);
        (void)snprintf(id, sizeof id, "%d-0", i + 1);
        append(file, event, id);
    }
    log_file_each(file, count_event, &count);
    assert_int_equal(count, LOG_FILE_MAX_EVENTS);
    assert_null(log_file_position(file, "e0"));
    assert_non_null(log_file_position(file, "e1"));
    log_file_close(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_next_writer_knows_every_position, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(a_half_written_line_is_cut_off_and_written_again,
                                        make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(a_new_file_carries_the_positions_and_old_ones_go,
                                        make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(a_file_just_begun_does_not_forget_the_one_before,
                                        make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(only_one_process_writes, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(the_number_of_events_is_bounded_and_the_quietest_goes,
                                        make_folder, remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
